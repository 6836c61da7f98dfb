"""Presets, the strategy that the quick start evolves, and the memories of other packages, within the same budget.

python -m mnemotune.experiments.memories.table OUT [NAME ...] [--data SOURCE] [--tokens 1000]

Packages run in their own environments: MNEMOTUNE_MEM0AI_PYTHON and MNEMOTUNE_LANGMEM_PYTHON name their interpreters. A
package without one is left out, and the table says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...env import Summary
from ...env.statistics import estimate, paired_difference
from ...optimizer.proposers.known import USERS_MESSAGES
from ...optimizer.views.table import markdown_lines, with_interval
from ...policies.files import WINDOW, load_policy
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.memory import open_memory
from ...policies.memory.packages.process import PackageError
from ...policies.policy import MemoryPolicy
from ..command import run
from ..memgym.table import config_of, scored

DATA = "generated:10@8827"
PRESETS = (WINDOW, "rag", "awe", "awi")
EVOLVED = "users_messages_renewed"
HERE = Path(__file__).parent
PACKAGES = ("mem0ai", "langmem")
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


def policies() -> dict[str, MemoryPolicy]:
    """Return the policies by name."""
    return {
        **{name: load_policy(name) for name in PRESETS},
        EVOLVED: MemoryPolicy.model_validate(USERS_MESSAGES[EVOLVED]),
        **{name: load_policy(HERE / f"{name}.yaml") for name in PACKAGES},
    }


def missing(policy: MemoryPolicy) -> str | None:
    """Return why a policy's memory cannot be opened here; None where it can."""
    try:
        open_memory(policy, EmbeddedModel(), LexicalEmbedder())
    except PackageError as error:
        return str(error)
    return None


def row(name: str, summary: Summary, rag: Summary) -> Sequence[str]:
    """Return what the table says of a policy."""
    shown, written = summary.context.values(), summary.spend.by_role.get("write")
    calls, tokens = (written.calls, written.input_tokens + written.output_tokens) if written else (0, 0)
    return [
        name,
        with_interval(summary.memory_score),
        with_interval(paired_difference(summary.by_group, rag.by_group)),
        with_interval(estimate(list(summary.evidence_by_group.values()))),
        f"{sum(use.tokens for use in shown) / sum(use.calls for use in shown):,.0f}",
        f"{calls / summary.groups:,.0f}",
        f"{tokens / summary.groups:,.0f}",
        f"{summary.failed_writes}",
        f"{summary.wall_s:,.0f}",
    ]


def main(
    out: Annotated[Path, typer.Argument(help="The JSON file to write.")],
    names: Annotated[list[str] | None, typer.Argument(help="Of these policies alone, and of rag.")] = None,
    data: Annotated[str, typer.Option(help="The users, none of whom a search may have seen.")] = DATA,
    tokens: Annotated[int, typer.Option(help="Context tokens.")] = 1000,
) -> None:
    """Score them all, the best first."""
    track, config = config_of("dialogue", data)
    config = config.model_copy(update={"context_tokens": tokens})
    chosen = {name: policy for name, policy in policies().items() if not names or name in {*names, "rag"}}
    absent = {name: why for name, policy in chosen.items() if (why := missing(policy)) is not None}
    there = {name: policy for name, policy in chosen.items() if name not in absent}
    summaries = asyncio.run(scored(track, config, there))
    best = sorted(summaries.items(), key=lambda item: -item[1].memory_score.mean)
    groups = next(iter(summaries.values())).groups
    print(f"\n`{data}`, {groups} users, {tokens:,} context tokens\n")
    print("\n".join(markdown_lines(COLUMNS, [row(*each, summaries["rag"]) for each in best])))
    for name, why in absent.items():
        print(f"\n{name} is left out: {why}")
    out.write_text(json.dumps({name: summary.as_json() for name, summary in summaries.items()}), encoding="utf-8")


if __name__ == "__main__":
    run(main)
