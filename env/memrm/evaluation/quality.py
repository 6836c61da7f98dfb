"""How good a reward model is on labelled writes, beside baselines that need no model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from ....policies.memory import MemoryEvent
from ....policies.text import stems
from ..model.blend import SETTINGS
from ..model.memgym import MemGymRow
from ..model.shape import said, shape_of, size, sizes_of
from ..rows.row import Row
from . import metrics
from .metrics import COVERED, Floats, Labels, auroc, interval

Interval = tuple[float, float]
RowT = TypeVar("RowT", Row, MemGymRow)

MAJORITY = "majority"
"""The baseline that says the same of every write: its AUROC is a half."""
FOLDS = 5
PENALTY = 1.0
"""On the squared weights of the baseline's regression, beside the summed loss."""


@dataclass(frozen=True, slots=True)
class RewardQuality:
    """How good a reward model is on some writes."""

    n: int
    """Scored writes."""
    unscored: int
    harmful: int
    clusters: int
    """Groups or policies; trajectories of MemGym's rows. Intervals are for new ones."""
    figures: Mapping[str, float]
    intervals: Mapping[str, Interval]
    """Of the figures, 95%."""
    baselines: Mapping[str, float]
    """AUROC of each."""
    leads: Mapping[str, tuple[float, Interval]]
    """By how much the model's AUROC is above each baseline's; paired."""


def quality_on_rows(
    p_safe: Floats, rows: Sequence[Row], *, threshold: float = COVERED, by: Literal["group", "policy"] = "group"
) -> RewardQuality:
    """Return the quality of scores of our rows; NaN ones are counted and left out.

    Intervals are for new groups or policies; what is fitted is fitted on the others' rows.
    """
    kept = _scored(p_safe, rows)
    events, groups = [row.event for row in kept], [row.group if by == "group" else row.policy for row in kept]
    harmful = harmful_rows(kept)
    rivals = {
        "length ratio": length_ratio(events),
        "lexical overlap": lexical_overlap(events),
        "logistic regression": logistic_regression(events, harmful, groups),
        "trees without words": boosted_trees(events, harmful, groups),
        **_of_executions(kept, harmful),
    }
    return _quality(p_safe, harmful, groups, rivals, threshold)


def _of_executions(rows: Sequence[Row], harmful: Labels) -> Mapping[str, Floats]:
    """Return what needs no memory where steps were carried out: the actions, and the name of the damage."""
    executions = [row.execution for row in rows if row.execution is not None]
    if len(executions) < len(rows):
        return {}
    equal = [each.recorded == each.proposed for each in executions]
    return {
        "equal actions": np.array(equal, dtype=float),
        "perturbation": _by_name([each.perturbation for each in executions], harmful),
    }


def harmful_rows(rows: Sequence[Row | MemGymRow]) -> Labels:
    """Return which rows are labelled HARMFUL."""
    return np.array([row.harmful for row in rows], dtype=bool)


def quality_on_memgym(p_safe: Floats, rows: Sequence[MemGymRow], *, threshold: float = COVERED) -> RewardQuality:
    """Return the quality of scores of MemGym's rows; the baselines see no memory either."""
    kept = _scored(p_safe, rows)
    harmful = harmful_rows(kept)
    clusters = [row.trajectory_id or str(i) for i, row in enumerate(kept)]
    equal = [row.recorded_action.strip() == row.predicted_action.strip() for row in kept]
    rivals = {
        "equal actions": np.array(equal, dtype=float),
        "perturbation": _by_name([row.perturbation for row in kept], harmful),
    }
    return _quality(p_safe, harmful, clusters, rivals, threshold)


def _scored(p_safe: Floats, rows: Sequence[RowT]) -> list[RowT]:
    return [row for row, score in zip(rows, p_safe, strict=True) if not math.isnan(score)]


def _by_name(names: Sequence[str], harmful: Labels) -> Floats:
    """Return the share of SAFE among the rows of the same name, the row itself included.

    It can only flatter names. Leaving the row itself out would turn the order round.
    """
    _, place = np.unique(names, return_inverse=True)
    shares: Floats = 1 - np.bincount(place, weights=harmful) / np.bincount(place)
    return shares[place]


def _quality(
    given: Floats, harmful: Labels, clusters: Sequence[str], rivals: Mapping[str, Floats], threshold: float
) -> RewardQuality:
    """Return the quality of the scores that are there; labels, clusters and rivals are aligned with these."""
    p_safe = given[~np.isnan(given)]
    measures: dict[str, metrics.Metric] = {
        "auroc": auroc,
        "ece": metrics.expected_calibration_error,
        "f1_safe": partial(metrics.f1, of_harmful=False),
        "f1_harmful": partial(metrics.f1, of_harmful=True),
        "coverage": partial(metrics.coverage, threshold=threshold),
        "accuracy_covered": partial(metrics.accuracy_covered, threshold=threshold),
    }
    rivals = {MAJORITY: np.zeros(len(p_safe)), **rivals}
    aurocs = {name: _auroc_of_all(scores, harmful) for name, scores in rivals.items()}
    samples = metrics.bootstrap_samples(clusters)
    own = np.array([auroc(p_safe[s], harmful[s]) for s in samples])
    others = {
        name: np.array([_auroc_of_all(scores[s], harmful[s]) for s in samples]) for name, scores in rivals.items()
    }
    figures = {name: measure(p_safe, harmful) for name, measure in measures.items()}
    drawn = {name: [measure(p_safe[s], harmful[s]) for s in samples] for name, measure in measures.items()}
    return RewardQuality(
        n=len(p_safe),
        unscored=len(given) - len(p_safe),
        harmful=int(harmful.sum()),
        clusters=len(set(clusters)),
        figures=figures,
        intervals={name: interval(values) for name, values in drawn.items()},
        baselines=aurocs,
        leads={name: (figures["auroc"] - aurocs[name], interval((own - others[name]).tolist())) for name in rivals},
    )


def _auroc_of_all(scores: Floats, harmful: Labels) -> float:
    """Return the AUROC; NaN where a row has no score, as its baseline was not fitted."""
    return math.nan if np.isnan(scores).any() else auroc(scores, harmful)


# Baselines: what a write's lengths and words already give; higher is safer


def length_ratio(events: Sequence[MemoryEvent]) -> Floats:
    """Return the new memory's characters per character of the old memory and the messages."""
    return np.array([size(e.after) / max(1, size(e.before) + size(said(e))) for e in events])


def lexical_overlap(events: Sequence[MemoryEvent]) -> Floats:
    """Return the share of the words of the user's messages that the new memory has; 1 where nothing was said."""
    return np.array([_overlap(event) for event in events])


def logistic_regression(events: Sequence[MemoryEvent], harmful: Labels, clusters: Sequence[str]) -> Floats:
    """Return P(safe) of a logistic regression on lengths, counts and overlap, fitted on other clusters' writes."""
    # imported late: scikit-learn takes a while that most commands do not need
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (2 * PENALTY)))
    features = [[*sizes_of(event), _overlap(event)] for event in events]
    return _fitted_on_others(model, features, harmful, clusters)


def boosted_trees(events: Sequence[MemoryEvent], harmful: Labels, clusters: Sequence[str]) -> Floats:
    """Return P(safe) of boosted trees that read no word, fitted on other clusters' writes.

    They see what ``shape_of`` returns.
    """
    from sklearn.ensemble import GradientBoostingClassifier  # imported late: it takes a while

    features = list(map(shape_of, events))
    return _fitted_on_others(GradientBoostingClassifier(**SETTINGS), features, harmful, clusters)


def _fitted_on_others(
    model: Any, features: Sequence[Sequence[float]], harmful: Labels, clusters: Sequence[str]
) -> Floats:
    """Return P(safe) of each row by a model that was fitted on other clusters' rows; NaN where these are too few."""
    p_safe, table = np.full(len(features), math.nan), np.array(features)
    names = sorted(set(clusters))
    for fold in range(min(FOLDS, len(names))):
        here = np.isin(np.asarray(clusters), names[fold::FOLDS])
        if here.all() or len(set(harmful[~here])) < 2:
            continue
        p_safe[here] = model.fit(table[~here], harmful[~here]).predict_proba(table[here])[:, 0]
    return p_safe


def _overlap(event: MemoryEvent) -> float:
    said = {word for message in event.evicted if message.role == "user" for word in stems(message.content)}
    known = {word for line in event.after for word in stems(line)}
    return len(said & known) / len(said) if said else 1.0
