"""The table that evaluations are shown in."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from ...env import Summary
from ...env.cost import TurnCost
from ...env.statistics import Estimate

COLUMNS = ("policy", "memory score", "accuracy", "write", "read", "util.", "calls/turn", "tokens/turn")
"""Memory score with its 95% interval; accuracy and the three failure shares sum to 1; what a turn of a talk costs where
nobody asks questions."""
LONGEST_NAME = 20
"""Characters of a name that leave the figures their room in 80 columns."""


def score_table(rows: Mapping[str, Summary], *, title: str) -> Table:
    """Return a table of evaluations by the name to show."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in COLUMNS:
        table.add_column(column.replace("/", "\n/"), justify="left" if column in COLUMNS[:2] else "right", no_wrap=True)
    for name, row in rows.items():
        table.add_row(*map(Text, cells(short(name, LONGEST_NAME), row)), style="bold" if name == "evolved" else None)
    return table


def cells(name: str, row: Summary) -> list[str]:
    """Return one evaluation's cells, aligned with ``COLUMNS``."""
    return [
        name,
        with_interval(row.memory_score),
        number(row.accuracy),
        *(number(row.shares[share]) for share in ("write", "read", "utilisation")),
        *cost_cells(row.per_turn),
    ]


def bound_notes(at_bounds: Mapping[str, int]) -> list[str]:
    """Say what to do about each number of the evolved policy that lies at a bound of the search."""
    return [
        f"The evolved policy's {key} {value} is at the bound of search.space.{key}: widen it, and search again."
        for key, value in at_bounds.items()
    ]


def cost_cells(cost: TurnCost | None) -> list[str]:
    """Return calls and tokens a turn; dashes where there is nothing to go by."""
    return ["-", "-"] if cost is None else [f"{cost.calls:.2f}", f"{cost.tokens:,.0f}"]


def with_interval(score: Estimate) -> str:
    """Write a score with its interval; the interval is left out where there is none."""
    mean, low, high = (number(value) for value in (score.mean, score.low, score.high))
    return mean if math.isnan(score.low) else f"{mean} [{low}, {high}]"


def short(name: str, longest: int) -> str:
    """Keep the end of a long name, where a path says most."""
    return name if len(name) <= longest else "\u2026" + name[1 - longest :]


def number(value: float) -> str:
    """Write a score; a dash where there is none."""
    return "-" if math.isnan(value) else f"{round(value, 3) + 0.0:.3f}"


def count(value: int) -> str:
    """Write a large count."""
    return f"{value / 1e6:.1f}M" if value >= 999_950 else f"{value / 1e3:.1f}k" if value >= 1e3 else str(value)


def people(groups: int, noun: str) -> str:
    """Write a number of groups under the name that the track gives them."""
    return f"{groups} {noun}" if groups == 1 else f"{groups} {noun}s"
