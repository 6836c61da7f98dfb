"""What a reply prompt is worth to a policy that keeps the user's messages as they are.

python -m mnemotune.experiments.self_evolution.reply_prompts OUT [--policy FILE] [--data SOURCE]

Such a policy has no write prompt. Of its reply prompt the embedded model's answers depend on three abilities: how
closely memories are read, whether the newest or the first of them counts, and whether the user's own life does. Each
instruction here takes one of them to an end; an answer heeds no more of it. Writes OUT/reply_prompts.md.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from ...env import Evaluation
from ...env.statistics import paired_difference
from ...optimizer.config import parse_config
from ...optimizer.proposers.known import USERS_MESSAGES
from ...optimizer.views.table import markdown_lines, with_interval
from ...policies.files import load_policy
from ...policies.policy import MemoryPolicy
from ..command import run
from ..transfer.budgets import front_of

CONTEXT_TOKENS = 1000
OWN_PROMPT = "the policy's own prompt"
HELPFUL, USE = "You are a helpful assistant.", "Use what you remember about the user."
OWN = "Rely only on what the user says about their own life."
NEWEST = "The newest memory always wins, without exception. Prefer the most recent statement over older ones."
SAID: Mapping[str, str] = {
    "says nothing of memories": HELPFUL,
    "the newest counts a little": f"{HELPFUL} {USE} Where memories differ, trust the newest.",
    "the newest counts": f"{HELPFUL} {USE} {NEWEST}",
    "the first counts": f"{HELPFUL} {USE} Rely on what was said first, not on what was said last.",
    "the user's own life counts": f"{HELPFUL} {USE} {OWN}",
    "own life, and the newest": f"{HELPFUL} {USE} {OWN} {NEWEST}",
}
"""What other prompts say before the memories."""


def prompted(policy: MemoryPolicy) -> dict[str, MemoryPolicy]:
    """Return a policy under its own reply prompt, and under each of the others."""
    texts = {name: f"{said}\nMemories of the user, oldest first:\n{{memories}}" for name, said in SAID.items()}
    values = policy.model_dump(mode="json")
    return {OWN_PROMPT: policy} | {
        name: MemoryPolicy.model_validate(values | {"prompts": values["prompts"] | {"reply": text}})
        for name, text in texts.items()
    }


def rows_of(found: Mapping[str, Evaluation]) -> Iterator[list[str]]:
    """Yield a row for each prompt: its memory score, and how far that is over the policy's own prompt's, by user."""
    for name, evaluation in found.items():
        over = paired_difference(evaluation.by_group, found[OWN_PROMPT].by_group)
        yield [name, with_interval(evaluation.memory_score), "" if name == OWN_PROMPT else with_interval(over)]


def main(
    out: Annotated[Path, typer.Argument(help="The folder to write to.")],
    policy: Annotated[Path | None, typer.Option(help="A policy file; without, the known strategy that wins.")] = None,
    data: Annotated[str, typer.Option(help="The users, none of which a search may have seen.")] = "generated:48@7332",
) -> None:
    """Score a policy under all prompts."""
    known = MemoryPolicy.model_validate(USERS_MESSAGES["users_messages_renewed"])
    evolved = known if policy is None else load_policy(str(policy))
    unused = {"splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": "window"}
    config = parse_config(json.dumps({"data": data}), where="the prompts' config", defaults=unused)
    found = asyncio.run(front_of(config, prompted(evolved), (CONTEXT_TOKENS,)))[CONTEXT_TOKENS]
    text = "\n".join(markdown_lines(["reply prompt", "memory score", "over its own prompt"], rows_of(found)))
    out.mkdir(parents=True, exist_ok=True)
    (out / "reply_prompts.md").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    run(main)
