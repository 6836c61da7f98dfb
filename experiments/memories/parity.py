"""Our own memories after published ones beside the packages of their authors: the same users, the same questions.

python -m mnemotune.experiments.memories.parity [ROWS] [--data SOURCE]

Both ask the same models. ROWS is the file of rows that the table fills; what it has is not measured again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...env import Summary
from ...env.scoring import FAILURE_KINDS
from ...env.statistics import paired_difference
from ...optimizer.views.table import markdown_lines, with_interval
from ..command import run
from .rows import ROWS, Place, contenders, measured
from .table import DATA

PAIRS = (
    ("mem0", "mem0ai"),
    ("mem0", "mem0ai-kuzu"),
    ("mem0-g", "mem0ai-kuzu"),
    ("a-mem", "a-mem-package"),
    ("nemori", "nemori-package"),
)
"""Presets, and the packages after which they are made."""
FIGURES = ("memory score", "evidence recall")
COLUMNS = ("figure", "ours", "the package", "ours less the package, paired")


def rows(own: Summary, package: Summary) -> list[Sequence[str]]:
    """Return the rows of a pair: one for each figure, and one for where answers were lost."""
    groups = [(own.by_group, package.by_group), (own.evidence_by_group, package.evidence_by_group)]
    means = [(own.memory_score, package.memory_score), (own.evidence, package.evidence)]
    differences = [with_interval(paired_difference(*pair)) for pair in groups]
    scores = [[*map(with_interval, pair)] for pair in means]
    compared = [[*cells] for cells in zip(FIGURES, *zip(*scores, strict=True), differences, strict=True)]
    return [*compared, ["answers lost in writing, reading, use", lost(own), lost(package), ""]]


def lost(summary: Summary) -> str:
    """Return the shares of answers that each kind of failure took."""
    return ", ".join(f"{summary.shares[kind]:.2f}" for kind in FAILURE_KINDS)


def lines(summaries: Mapping[str, Summary]) -> list[str]:
    """Return the table of every pair of which both have been measured."""
    pairs = [pair for pair in PAIRS if summaries.keys() >= {*pair}]
    cells = [[f"{own}, {package}", *row] for own, package in pairs for row in rows(summaries[own], summaries[package])]
    return [*markdown_lines(("ours, the package", *COLUMNS), cells)]


def main(
    path: Annotated[Path, typer.Argument(help="The file of rows.", metavar="[ROWS]")] = ROWS,
    data: Annotated[str, typer.Option(help="The users.")] = DATA,
) -> None:
    """Compare each pair that can run here."""
    paired = {name for pair in PAIRS for name in pair}
    chosen = {name: policy for name, policy in contenders().items() if name in paired}
    summaries, absent = measured(path, Place("dialogue", data, 1000), chosen)
    print("\n".join(["", *lines(summaries), "", *absent]))


if __name__ == "__main__":
    run(main)
