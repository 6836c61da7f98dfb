"""An ablation's comparison as files and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ...data.json_files import write_json
from ..search.ablation import COLUMNS, Variant
from .plots import variants_plot
from .table import count, markdown_lines, number, plain_table, signed, with_interval

NARROW = ("score", "over\nwindow", "difference", "tried", "acc.", "periods", "calls", "s")
"""``COLUMNS`` for a terminal of 80 columns; a track has its own name for periods."""


def write_comparison(
    variants: Sequence[Variant], out: Path, *, about: Mapping[str, Any], stage_noun: str = "period"
) -> dict[str, Any]:
    """Write ``results.json``, ``table.md`` and ``plot.svg``; return what the first holds, ``about`` included."""
    result = {**about, "variants": [variant.as_json() for variant in variants]}
    write_json(out / "results.json", result, indent=2)
    (out / "table.md").write_text(markdown(variants, stage_noun=stage_noun), encoding="utf-8")
    (out / "plot.svg").write_text(variants_plot(variants) + "\n", encoding="utf-8")
    return result


def markdown(variants: Sequence[Variant], *, stage_noun: str = "period") -> str:
    """Return the comparison as a Markdown table."""
    rows = ([v.name, with_interval(v.score), with_interval(v.over_window), *_cells(v)] for v in variants)
    return "\n".join([*markdown_lines(_named("variant", *COLUMNS, stage_noun=stage_noun), rows), ""])


def comparison_table(variants: Sequence[Variant], *, title: str, stage_noun: str = "period") -> Table:
    """Return the comparison as a terminal's table."""
    rows = ([v.name, number(v.score.mean), signed(v.over_window.mean), *_cells(v)] for v in variants)
    columns, first = _named("variant", *NARROW, stage_noun=stage_noun), variants[0].name
    table = plain_table(columns, rows, left=["difference"], bold=first, title=title, padding=0)
    table.columns[0].no_wrap = False
    return table


def _named(*columns: str, stage_noun: str) -> list[str]:
    return [f"{stage_noun}s" if column == "periods" else column for column in columns]


def _cells(variant: Variant) -> list[str]:
    """Return a variant's cells from its difference on."""
    return [
        "" if variant.difference is None else with_interval(variant.difference),
        f"{variant.mean('candidates'):.0f}",
        f"{variant.mean('accepted'):.1f}",
        count(round(variant.mean("periods"))),
        count(round(variant.mean("calls"))),
        f"{variant.mean('seconds'):.0f}",
    ]
