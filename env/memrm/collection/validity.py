"""Predictive validity of labels: how much likelier a failure is after a HARMFUL write than after a SAFE one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....data.task import Check, Fact, Task
from ...episode import Mark
from ..evaluation.metrics import bootstrap_samples, interval
from ..rows.row import FactLabel, Row
from .reading import state_of

RIGHT_FROM = 0.5
"""Score from which on an answer counts as right; most tracks give 0 or 1."""


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
    """Lower end of the ratio's 95% interval, bootstrapped over groups; NaN with fewer than two groups."""
    high: float
    count: int


def answers_after(task: Task, rows: Sequence[Row], marks: Sequence[Mark]) -> Iterator[Outcome]:
    """Yield what came of the checks of an episode of which labels tell: a fact is lost, or none is.

    ``rows`` are the episode's, in their order.
    """
    for mark in marks:
        check = task.checks[mark.check]
        lost = [_lost(task, task.facts[need], check, rows) for need in check.needs]
        if (True in lost or None not in lost) and not math.isnan(mark.score):
            yield Outcome(task.group, True in lost, mark.score < RIGHT_FROM)


def facts_after(task: Task, rows: Sequence[Row], marks: Sequence[Mark]) -> Iterator[Outcome]:
    """Yield what came of each fact that a check needs, where labels tell of it and the assistant was asked for it.

    ``rows`` are the episode's, in their order.
    """
    for mark in marks:
        check = task.checks[mark.check]
        for need in check.needs:
            lost, known = _lost(task, task.facts[need], check, rows), mark.recalled.get(need)
            if lost is not None and known is not None:
                yield Outcome(task.group, lost, not known)


def _lost(task: Task, fact: Fact, check: Check, rows: Sequence[Row]) -> bool | None:
    """Return whether the newest write since a fact was told, and before a check, lost it; None where no label tells."""
    labels = (
        label.lost
        for row in reversed(rows)
        if fact.since <= row.stage <= check.stage
        for label in row.facts
        if _is_of(label, fact, task) and label.lost is not None
    )
    return next(labels, None)


def _is_of(label: FactLabel, fact: Fact, task: Task) -> bool:
    """Tell whether a label is of a fact, and of no other value of its key, as far as the label says."""
    if label.fact is None:
        return label.key == fact.key
    return state_of(task.facts[label.fact]) == state_of(fact)


def validity(outcomes: Sequence[Outcome]) -> Validity | None:
    """Return how labels go with outcomes; None where a label has none, or where nothing failed after a SAFE write."""
    lost = np.array([outcome.lost for outcome in outcomes], dtype=bool)
    failed = np.array([outcome.failed for outcome in outcomes], dtype=bool)
    ratio = _ratio(lost, failed)
    if math.isnan(ratio):
        return None
    samples = bootstrap_samples([outcome.group for outcome in outcomes])
    low, high = interval([_ratio(lost[sample], failed[sample]) for sample in samples])
    return Validity(float(failed[lost].mean()), float(failed[~lost].mean()), ratio, low, high, len(outcomes))


def _ratio(lost: NDArray[np.bool_], failed: NDArray[np.bool_]) -> float:
    """Return how many times as large the share of failures is after a loss; NaN where a share is missing or zero."""
    if not lost.any() or lost.all() or not failed[~lost].any():
        return math.nan
    return float(failed[lost].mean() / failed[~lost].mean())
