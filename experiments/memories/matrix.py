"""Which memories are good for which work: presets, native memories and packages on every track.

python -m mnemotune.experiments.memories.matrix [ROWS] [--only TRACK ...] [--conversations FILE]

Each track at its usual budget. ROWS is the file of rows, to which each is added as it comes; what it has is not
measured again. The conversations are those of a file of yours, and left out without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from ...env import Summary
from ...env.statistics import Estimate, paired_difference
from ...optimizer.views.table import markdown_lines, with_interval
from ..command import run
from .rows import ROWS, Place, contenders, measured
from .table import DATA

SOURCES = {
    "dialogue": DATA,
    "codeqa": "generated:12@8827",
    "research": "generated:12@8827",
    "tools": "workshop",
    "swe": "generated:1@8827",
    "web": "generated:8@8827",
}
"""The data of each track."""


FIGURES: Mapping[str, Callable[[Summary], tuple[Estimate, Mapping[str, float]]]] = {
    "memory score": lambda summary: (summary.memory_score, summary.by_group),
    "evidence recall": lambda summary: (summary.evidence, summary.evidence_by_group),
}
"""What is told of a memory on a track: the mean, and by group."""


def cell(summary: Summary | None, rag: Summary, figure: str) -> str:
    """Return a memory's figure on a track, with a mark where it is surely above or below rag's; empty without one."""
    if summary is None:
        return ""
    mean, by_group = FIGURES[figure](summary)
    if math.isnan(mean.mean):
        return ""
    difference = paired_difference(by_group, FIGURES[figure](rag)[1])
    mark = " +" if difference.low > 0 else " -" if difference.high < 0 else ""
    return f"{with_interval(mean)}{mark}"


def lines(found: Mapping[Place, Mapping[str, Summary]], figure: str) -> list[str]:
    """Return the matrix of a figure: a row for each memory, a column for each track."""
    heads = [figure, *(f"{p.track}, {s['rag'].groups} groups, {p.tokens} tokens" for p, s in found.items())]
    names = dict.fromkeys(name for summaries in found.values() for name in summaries)
    cells = [[name, *(cell(s.get(name), s["rag"], figure) for s in found.values())] for name in names]
    return [*markdown_lines(heads, cells)]


def main(
    path: Annotated[Path, typer.Argument(help="The file of rows.", metavar="[ROWS]")] = ROWS,
    only: Annotated[list[str] | None, typer.Option(help="These tracks alone.")] = None,
    conversations: Annotated[str | None, typer.Option(help="Conversations, as `data import` writes them.")] = None,
) -> None:
    """Score every memory on every track."""
    sources = SOURCES | ({"conversations": conversations} if conversations else {})
    found, left = dict[Place, Mapping[str, Summary]](), dict[str, None]()
    for track, source in sources.items():
        if not only or track in only:
            place = Place.usual(track, source)
            found[place], absent = measured(path, place, contenders())
            left |= dict.fromkeys(absent)
    tables = [line for figure in FIGURES for line in ("", *lines(found, figure))]
    print("\n".join([*tables, "", *left]))


if __name__ == "__main__":
    run(main)
