"""Judge a reward model on labelled writes, beside what needs none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..model.memgym import MemGymRow
from ..rows.row import Row
from . import baselines
from .metrics import (
    COVERED,
    Floats,
    Labels,
    accuracy_covered,
    auroc,
    coverage,
    expected_calibration_error,
    f1_harmful,
    f1_safe,
    interval,
    resampled,
)

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a reward model is worth on some writes."""

    n: int
    """Scored writes."""
    unscored: int
    harmful: int
    clusters: int
    """Users; trajectories of MemGym's rows. Intervals are for new ones."""
    figures: Mapping[str, float]
    intervals: Mapping[str, Interval]
    """Of the figures, 95%."""
    baselines: Mapping[str, float]
    """AUROC of each."""
    lead: tuple[str, float, Interval]
    """The best baseline, and by how much the model's AUROC is above it; paired."""


def judge_rows(p_safe: Floats, rows: Sequence[Row], *, threshold: float = COVERED) -> Judgement:
    """Judge scores of our rows; NaN ones are counted and left out."""
    known = ~np.isnan(p_safe)
    kept = [row for row, one in zip(rows, known, strict=True) if one]
    events, users = [row.event for row in kept], [row.user for row in kept]
    harmful = np.array([row.label == "HARMFUL" for row in kept], dtype=bool)
    rivals = {
        "majority": baselines.majority(events),
        "length ratio": baselines.length_ratio(events),
        "lexical overlap": baselines.lexical_overlap(events),
        "logistic regression": baselines.logistic_regression(events, harmful, users),
    }
    return _judged(p_safe[known], harmful, users, rivals, int((~known).sum()), threshold)


def judge_memgym(p_safe: Floats, rows: Sequence[MemGymRow], *, threshold: float = COVERED) -> Judgement:
    """Judge scores of MemGym's rows; its baselines know no memory either."""
    known = ~np.isnan(p_safe)
    kept = [row for row, one in zip(rows, known, strict=True) if one]
    harmful = np.array([row.label == 0 for row in kept], dtype=bool)
    clusters = [row.trajectory_id or str(i) for i, row in enumerate(kept)]
    equal = [row.recorded_action.strip() == row.predicted_action.strip() for row in kept]
    rivals = {
        "majority": np.zeros(len(kept)),
        "equal actions": np.array(equal, dtype=float),
        "perturbation": _by_name([row.perturbation for row in kept], harmful),
    }
    return _judged(p_safe[known], harmful, clusters, rivals, int((~known).sum()), threshold)


def _by_name(names: Sequence[str], harmful: Labels) -> Floats:
    """Return the share of SAFE among the rows of the same name, themselves included: it can only flatter names.

    Without themselves, a name of which more are SAFE elsewhere would be the one of which fewer are here.
    """
    _, place = np.unique(names, return_inverse=True)
    shares: Floats = 1 - np.bincount(place, weights=harmful) / np.bincount(place)
    return shares[place]


def _judged(
    p_safe: Floats,
    harmful: Labels,
    clusters: Sequence[str],
    rivals: Mapping[str, Floats],
    unscored: int,
    threshold: float,
) -> Judgement:
    metrics = {
        "auroc": auroc,
        "ece": expected_calibration_error,
        "f1_safe": f1_safe,
        "f1_harmful": f1_harmful,
        "coverage": coverage(threshold),
        "accuracy_covered": accuracy_covered(threshold),
    }
    aurocs = {name: auroc(scores, harmful) for name, scores in rivals.items()}
    best = max(aurocs, key=lambda name: -math.inf if math.isnan(aurocs[name]) else aurocs[name])
    samples = resampled(clusters)
    leads = [auroc(p_safe[s], harmful[s]) - auroc(rivals[best][s], harmful[s]) for s in samples]
    figures = {name: metric(p_safe, harmful) for name, metric in metrics.items()}
    drawn = {name: [metric(p_safe[s], harmful[s]) for s in samples] for name, metric in metrics.items()}
    return Judgement(
        n=len(p_safe),
        unscored=unscored,
        harmful=int(harmful.sum()),
        clusters=len(set(clusters)),
        figures=figures,
        intervals={name: interval(values) for name, values in drawn.items()},
        baselines=aurocs,
        lead=(best, figures["auroc"] - aurocs[best], interval(leads)),
    )
