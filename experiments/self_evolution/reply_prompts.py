"""What a reply prompt is worth to strategies that keep the user's messages as they are, and search them.

python -m mnemotune.experiments.self_evolution.reply_prompts OUT [--policy FILE] [--data SOURCE]

Such a strategy has no write prompt. One ranks messages by likeness alone, the other also by age and by likeness to
newer ones. Of a reply prompt the embedded model's answers depend on three abilities: how
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
from ...env.statistics import estimate, paired_difference
from ...optimizer.config import parse_config
from ...optimizer.proposers.known import USERS_MESSAGES
from ...optimizer.views.table import markdown_lines, with_interval
from ...policies.files import load_policy
from ...policies.policy import MemoryPolicy
from ..command import run
from ..transfer.budgets import front_of

CONTEXT_TOKENS = 1000
OWN_PROMPT = "its own prompt"
COLUMNS = ("strategy", "reply prompt", "memory score", "evidence recall", "over its own prompt", "over the first row")
STRATEGIES = ("users_messages_renewed", "users_messages_searched")
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


def rows_of(found: Mapping[tuple[str, str], Evaluation]) -> Iterator[list[str]]:
    """Yield a row for each strategy and prompt: memory score, evidence recall, and how far the score is over others.

    These are the strategy's own prompt's and the first row's, by user.
    """
    first = next(iter(found))
    for (strategy, prompt), evaluation in found.items():
        recall = estimate([group.evidence for group in evaluation.groups])
        row = [strategy, prompt, with_interval(evaluation.memory_score), with_interval(recall)]
        for other in ((strategy, OWN_PROMPT), first):
            over = paired_difference(evaluation.by_group, found[other].by_group)
            row.append("" if other == (strategy, prompt) else with_interval(over))
        yield row


def main(
    out: Annotated[Path, typer.Argument(help="The folder to write to.")],
    policy: Annotated[Path | None, typer.Option(help="A policy file, in place of the two strategies.")] = None,
    data: Annotated[str, typer.Option(help="The users, none of which a search may have seen.")] = "generated:48@7332",
) -> None:
    """Score strategies under all prompts."""
    strategies = (
        {name: MemoryPolicy.model_validate(USERS_MESSAGES[name]) for name in STRATEGIES}
        if policy is None
        else {policy.stem: load_policy(str(policy))}
    )
    policies = {(name, prompt): one for name, known in strategies.items() for prompt, one in prompted(known).items()}
    unused = {"splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": "window"}
    config = parse_config(json.dumps({"data": data}), where="the prompts' config", defaults=unused)
    named = {" / ".join(names): one for names, one in policies.items()}
    scores = asyncio.run(front_of(config, named, (CONTEXT_TOKENS,)))[CONTEXT_TOKENS]
    found = {names: scores[" / ".join(names)] for names in policies}
    text = "\n".join(markdown_lines(COLUMNS, rows_of(found)))
    out.mkdir(parents=True, exist_ok=True)
    (out / "reply_prompts.md").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    run(main)
