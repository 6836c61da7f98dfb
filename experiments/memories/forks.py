"""What a package's write costs before it begins: the copy of the store, at each size.

python -m mnemotune.experiments.memories.forks [--seed 555]

A fork itself, a snapshot, and going back to one copy nothing: a store never changes, and each write makes a new one.
"""

from __future__ import annotations

import asyncio
from statistics import median
from typing import Annotated

import typer

from ...data.dialogue.generator import generate_scenarios
from ...optimizer.views.table import markdown_lines
from ...policies import load_policy
from ...policies.lm import Message
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.memory import open_memory
from ...policies.memory.packages.process import process_of
from ...policies.space import PACKAGES
from ..command import run
from .rows import HERE

APART = 30
"""Writes of a row."""


async def rows(package: str, said: list[str]) -> list[list[str]]:
    """Return the rows of a package: writes so far, memories, and median milliseconds of a copy."""
    memory = open_memory(load_policy(HERE / f"{package}.yaml"), EmbeddedModel(), LexicalEmbedder())
    held = []
    for text in said:
        await memory.observe([Message("user", text), Message("assistant", "I see.")])
        held.append(len(await memory.listing()))
    copies = await process_of(package).ask("copies")
    await memory.aclose()
    starts = range(0, len(copies) - APART + 1, APART)
    ends = [(start + APART, copies[start : start + APART]) for start in starts]
    return [[package, f"{end}", f"{held[end - len(copies) - 1]}", f"{1000 * median(each):.0f}"] for end, each in ends]


def main(seed: Annotated[int, typer.Option(help="Of the generated user who speaks.")] = 555) -> None:
    """Let each package write what a user says."""
    (user,) = generate_scenarios(users=1, seed=seed)
    said = [session.query for period in user.periods for session in period.sessions]
    found = [row for package in PACKAGES for row in asyncio.run(rows(package, said))]
    print("\n".join(markdown_lines(("package", "writes", "memories", "ms a copy"), found)))


if __name__ == "__main__":
    run(main)
