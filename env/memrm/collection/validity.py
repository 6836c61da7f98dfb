"""Predictive validity of labels: how much likelier a failure is after a HARMFUL write than after a SAFE one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....data.task import Check, Fact, Task
from ...episode import Mark
from ..rows.row import Row

RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a fact, or of a check, after the newest writes at which it, or each of its facts, was at stake."""

    group: str
    lost: bool
    """Whether one of these writes lost a fact."""
    failed: bool
    """Whether the fact was not known, or the check was answered wrong."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Shares of failures in [0, 1], and how many times as large the first is."""

    after_harmful: float
    after_safe: float
    ratio: float
    low: float
    """Lower end of the ratio's 95% interval, resampled by group; NaN with fewer than two groups."""
    high: float
    count: int


def answers_after(task: Task, rows: Sequence[Row], marks: Sequence[Mark]) -> Iterator[Outcome]:
    """Yield what came of the checks of an episode of which labels tell: a fact is lost, or none is.

    ``rows`` are the episode's, in their order.
    """
    for mark in marks:
        check = task.checks[mark.check]
        lost = [_lost(task.facts[need], check, rows) for need in check.needs]
        if (True in lost or None not in lost) and not math.isnan(mark.score):
            yield Outcome(task.group, True in lost, mark.score < 1)


def facts_after(task: Task, rows: Sequence[Row], marks: Sequence[Mark]) -> Iterator[Outcome]:
    """Yield what came of each fact that a check needs, where labels tell of it and the assistant was asked for it.

    ``rows`` are the episode's, in their order.
    """
    for mark in marks:
        check = task.checks[mark.check]
        for need in check.needs:
            lost, known = _lost(task.facts[need], check, rows), mark.recalled.get(need)
            if lost is not None and known is not None:
                yield Outcome(task.group, lost, not known)


def _lost(fact: Fact, check: Check, rows: Sequence[Row]) -> bool | None:
    """Return whether the newest write since a fact was told, and before a check, lost it; None where no label tells."""
    labels = (
        label.lost
        for row in reversed(rows)
        if fact.since <= row.stage <= check.stage
        for label in row.facts
        if label.key == fact.key and label.lost is not None
    )
    return next(labels, None)


def validity(outcomes: Sequence[Outcome], *, seed: int = 0) -> Validity | None:
    """Return how labels go with outcomes; None where a label has none, or where nothing failed after a SAFE write."""
    groups = sorted({outcome.group for outcome in outcomes})
    counts = Counter((outcome.group, outcome.lost, outcome.failed) for outcome in outcomes)
    # by group, by whether a fact was lost, by whether it failed
    table = np.array(
        [[[counts[g, lost, failed] for failed in (False, True)] for lost in (False, True)] for g in groups]
    )
    if not groups or not table.sum(axis=(0, 2)).all() or not table[:, 0, 1].any():
        return None
    safe, harmful = _failed(table.sum(axis=0))
    low = high = math.nan
    if len(groups) > 1:
        drawn = np.random.default_rng(seed).integers(len(groups), size=(RESAMPLES, len(groups)))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.array([_failed(table[places].sum(axis=0)) for places in drawn])
            ratios = shares[:, 1] / shares[:, 0]
        low, high = np.quantile(ratios[np.isfinite(ratios)], (0.025, 0.975))
    return Validity(float(harmful), float(safe), float(harmful / safe), float(low), float(high), len(outcomes))


def _failed(table: np.ndarray) -> np.ndarray:
    """Return the share of failures, by whether a fact was lost."""
    share: np.ndarray = table[:, 1] / table.sum(axis=1)
    return share
