"""Presets, evolved strategies, and other people's memories, native and as packages, within the same budget.

python -m mnemotune.experiments.memories.table [ROWS] [--only NAME ...] [--data SOURCE] [--tokens 1000]

ROWS is the file of rows, to which each is added as it comes; what it has is not measured again. Packages run in their
own environments, which docs/your_memory.md says how to make. A package without one is left out, and the table says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...env import Summary
from ...env.statistics import paired_difference
from ...optimizer.views.table import markdown_lines, with_interval
from ..command import run
from .rows import ROWS, Place, contenders, measured

DATA = "generated:12@8827:b"
COLUMNS = (
    "policy",
    "memory score",
    "less rag, paired",
    "evidence recall",
    "tokens shown",
    "writing's calls a user",
    "its tokens a user",
    "failed writes",
    "seconds",
)


def row(name: str, summary: Summary, rag: Summary) -> Sequence[str]:
    """Return what the table says of a policy."""
    shown, written = summary.context.values(), summary.spend.by_role.get("write")
    calls, tokens = (written.calls, written.input_tokens + written.output_tokens) if written else (0, 0)
    return [
        name,
        with_interval(summary.memory_score),
        with_interval(paired_difference(summary.by_group, rag.by_group)),
        with_interval(summary.evidence),
        f"{sum(use.tokens for use in shown) / sum(use.calls for use in shown):,.0f}",
        f"{calls / summary.groups:,.0f}",
        f"{tokens / summary.groups:,.0f}",
        f"{summary.failed_writes}",
        f"{summary.wall_s:,.0f}",
    ]


def main(
    rows: Annotated[Path, typer.Argument(help="The file of rows.")] = ROWS,
    only: Annotated[list[str] | None, typer.Option(help="Of these policies alone, and of rag.")] = None,
    data: Annotated[str, typer.Option(help="The users, none of whom a search may have seen.")] = DATA,
    tokens: Annotated[int, typer.Option(help="Context tokens.")] = 1000,
) -> None:
    """Score them all, the best first."""
    chosen = {name: policy for name, policy in contenders().items() if not only or name in {*only, "rag"}}
    summaries, absent = measured(rows, Place("dialogue", data, tokens), chosen)
    best = sorted(summaries.items(), key=lambda item: -item[1].memory_score.mean)
    print(f"\n`{data}`, {summaries['rag'].groups} users, {tokens:,} context tokens\n")
    print("\n".join(markdown_lines(COLUMNS, [row(*each, summaries["rag"]) for each in best])))
    print("\n".join(["", *absent]))


if __name__ == "__main__":
    run(main)
