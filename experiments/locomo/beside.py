"""Policies beside the best preset, paired by conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...env.statistics import estimate, nan_mean, paired_difference
from ...optimizer.views.table import markdown_lines, with_interval
from ..memories.rows import PRESETS

ByConversation = Mapping[str, float]
"""A figure of a policy, by conversation; NaN where it is not known."""
Figures = Mapping[str, Mapping[str, ByConversation]]
"""Figures by policy and column."""


def cell(figure: ByConversation) -> str:
    """Write a figure's mean over conversations with its interval."""
    return with_interval(estimate([*figure.values()]))


def gain_lines(figures: Figures, columns: Sequence[str], *, by: str) -> list[str]:
    """Return a table of how far each policy is above the best of ``PRESETS``; nothing where none of these is there.

    The best has the highest mean in the column ``by``. Differences are over conversations that both have.
    """
    means = {name: nan_mean([*figures[name][by].values()]) for name in PRESETS if name in figures}
    if not means:
        return []
    best = max(means, key=lambda name: means[name])
    gains = {
        name: [with_interval(paired_difference(of[column], figures[best][column])) for column in columns]
        for name, of in figures.items()
        if name != best
    }
    table = markdown_lines(("policy", *columns), [(name, *cells) for name, cells in gains.items()])
    return ["", f"Less {best}, the best preset by {by}, paired by conversation:", "", *table]
