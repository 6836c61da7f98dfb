"""Scores on parts of the sealed test: seed policy beside the evolved one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...env.scoring import FAILURE_KINDS
from ...env.statistics import Estimate, estimate, paired_difference
from ..search.acceptance import Slices
from ..search.sealed import EVOLVED, SEED
from .table import Rows


@dataclass(frozen=True, slots=True)
class SliceRow:
    """Two policies on one part of what is asked."""

    name: str
    seed: Estimate
    evolved: Estimate
    difference: Estimate
    """Paired by group; ``users`` is how many groups there are."""


def slice_rows(slices: Mapping[str, Slices]) -> list[SliceRow]:
    """Compare the accuracy on each part that both policies were asked, the worst for the evolved policy first.

    Those without a score are last. Kinds of failure are left out: they have a plot of their own.
    """
    seed, evolved = slices.get(SEED, {}), slices.get(EVOLVED, {})
    failures = {f"{kind} failures" for kind in FAILURE_KINDS}
    rows = [
        SliceRow(name.replace("_", " "), *_compared(seed[name], evolved[name]))
        for name in evolved
        if name in seed and name not in failures
    ]
    return sorted(rows, key=_worst_first)


def group_rows(rows: Rows) -> list[SliceRow]:
    """Compare the memory scores of each group, the worst for the evolved policy first, those without a score last."""
    if not {SEED, EVOLVED} <= rows.keys():
        return []
    seed, evolved = rows[SEED].by_group, rows[EVOLVED].by_group
    compared = [
        SliceRow(group, *_compared({group: seed[group]}, {group: evolved[group]})) for group in seed if group in evolved
    ]
    return sorted(compared, key=_worst_first)


def _compared(seed: Mapping[str, float], evolved: Mapping[str, float]) -> tuple[Estimate, Estimate, Estimate]:
    return estimate(list(seed.values())), estimate(list(evolved.values())), paired_difference(evolved, seed)


def _worst_first(row: SliceRow) -> tuple[bool, float, str]:
    """Return what to sort by; NaN compares with nothing, and so would leave the others without an order."""
    return math.isnan(row.difference.mean), row.difference.mean, row.name
