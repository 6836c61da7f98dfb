"""An ablation's comparison as files and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ...data.json_files import write_json
from ..search.ablation import TOOK, Compared, Variant
from .plots import variants_plot
from .table import count, markdown_lines, number, plain_table, signed, with_interval


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
    columns = {
        "variant": [variant.name for variant in variants],
        "memory score": [with_interval(variant.score.estimate) for variant in variants],
        "over window": [with_interval(variant.over_window) for variant in variants],
        "difference": [_difference(variant.score) for variant in variants],
        "evidence recall": [with_interval(variant.evidence.estimate) for variant in variants],
        "difference in evidence": [_difference(variant.evidence) for variant in variants],
        "mean of both": [with_interval(variant.both.estimate) for variant in variants],
        "difference in both": [_difference(variant.both) for variant in variants],
    }
    columns |= {_named(what, stage_noun): [_taken(variant, what) for variant in variants] for what in TOOK}
    return "\n".join([*markdown_lines(list(columns), zip(*columns.values(), strict=True)), ""])


def comparison_table(variants: Sequence[Variant], *, title: str, stage_noun: str = "period") -> Table:
    """Return the comparison as a table for a terminal of 80 columns, without seconds."""
    columns = {
        "variant": [variant.name for variant in variants],
        "score": [number(variant.score.estimate.mean) for variant in variants],
        "over\nwindow": [signed(variant.over_window.mean) for variant in variants],
        "difference": [_difference(variant.score) for variant in variants],
        "evi-\ndence": [number(variant.evidence.estimate.mean) for variant in variants],
    }
    narrow = {"candidates": "tried", "accepted": "acc."}
    for what in (what for what in TOOK if what != "seconds"):
        columns[narrow.get(what, _named(what, stage_noun))] = [_taken(variant, what) for variant in variants]
    rows = zip(*columns.values(), strict=True)
    table = plain_table(list(columns), rows, left=["difference"], bold=variants[0].name, title=title, padding=0)
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    return table


def _named(what: str, stage_noun: str) -> str:
    return f"{stage_noun}s" if what == "periods" else what


def _difference(compared: Compared) -> str:
    return "" if compared.difference is None else with_interval(compared.difference)


def _taken(variant: Variant, what: str) -> str:
    mean = variant.mean(what)
    if what in ("periods", "calls"):
        return count(round(mean))
    return f"{mean:.1f}" if what == "accepted" else f"{mean:.0f}"
