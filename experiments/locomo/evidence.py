"""Evidence recall on LoCoMo's conversations: what memory shows within a budget, whoever reads it.

python -m mnemotune.experiments.locomo.evidence OUT --data LOCOMO/data/locomo10.json [POLICY ...]

Memory hears both speakers, one message at a time. A policy is a preset or a file. The data is not ours to ship: it is
in the repository dial481/locomo (CC BY-NC 4.0).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ...env.evidence import pieces_of, stands_in
from ...env.statistics import Estimate, estimate, nan_mean
from ...optimizer.views.table import markdown_lines, with_interval
from ...policies import Assistant, load_policy
from ...policies.files import WINDOW
from ...policies.lm import Message
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.memory import open_memory
from ..command import run

CATEGORIES = {1: "several turns", 2: "time", 3: "open", 4: "one turn"}
"""LoCoMo's kinds of questions by number; those of the fifth are about nothing that was said."""
BUDGETS = (250, 500, 1000, 2000)
"""Context tokens."""
PRESETS = (WINDOW, "rag", "awe", "awi")


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is asked at the end of a conversation."""

    text: str
    category: int
    evidence: tuple[str, ...]
    """The turns that have the answer."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Two people's talk over months."""

    id: str
    messages: tuple[Message, ...]
    """All are a user's, for nobody here is the assistant; the speaker's name is before each."""
    questions: tuple[Question, ...]
    """Those whose evidence is known."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Conversation:
        """Read one conversation of ``locomo10.json``."""
        talk, messages, turns = values["conversation"], list[Message](), dict[str, str]()
        names = sorted((name for name, turns in talk.items() if isinstance(turns, list)), key=lambda n: int(n[8:]))
        for turn in (turn for name in names for turn in talk[name]):
            messages.append(Message("user", f"{turn['speaker']}: {turn['text']}"))
            turns[turn["dia_id"]] = turn["text"]
        questions = []
        for asked in values["qa"]:
            ids = " ".join(asked["evidence"]).replace(";", " ").split()
            evidence = tuple(turns[turn] for turn in ids if turn in turns)
            if asked["category"] in CATEGORIES and evidence:
                questions.append(Question(asked["question"], asked["category"], evidence))
        return cls(values["sample_id"], tuple(messages), tuple(questions))


async def recalls(conversation: Conversation, policy: str, *, budgets: Sequence[int]) -> dict[int, dict[int, float]]:
    """Return a policy's evidence recall by budget and category; NaN where a category has no question."""
    model = EmbeddedModel()
    memory = open_memory(load_policy(policy), model, LexicalEmbedder(dimensions=1024))
    for message in conversation.messages:
        await memory.observe([message])
    found: dict[int, dict[int, float]] = {}
    for tokens in budgets:
        assistant = Assistant(model, memory, context_tokens=tokens)
        shares: dict[int, list[float]] = {category: [] for category in CATEGORIES}
        for question in conversation.questions:
            pieces = pieces_of(await assistant.context(question.text))
            shown = [stands_in(turn, pieces) for turn in question.evidence]
            shares[question.category].append(sum(shown) / len(shown))
        found[tokens] = {category: nan_mean(values) for category, values in shares.items()}
        found[tokens][0] = nan_mean([value for values in shares.values() for value in values])
    await memory.aclose()
    return found


def main(
    out: Annotated[Path, typer.Argument(help="The JSON file to write.")],
    data: Annotated[Path, typer.Option(help="LoCoMo's locomo10.json.")],
    policies: Annotated[list[str] | None, typer.Argument(help="Presets or policy files; else the presets.")] = None,
    tokens: Annotated[int, typer.Option(help="The budget at which recall is told by category.")] = 1000,
) -> None:
    """Measure recall by budget and by category, each conversation a group."""
    conversations = [Conversation.of(values) for values in json.loads(data.read_text(encoding="utf-8"))]
    figures = dict[str, dict[int, dict[int, Estimate]]]()
    for policy in policies or PRESETS:
        each = [asyncio.run(recalls(talk, policy, budgets=BUDGETS)) for talk in conversations]
        figures[policy] = {
            budget: {kind: estimate([found[budget][kind] for found in each]) for kind in (0, *CATEGORIES)}
            for budget in BUDGETS
        }
    questions = sum(len(talk.questions) for talk in conversations)
    print(f"\n{len(conversations)} conversations, {questions:,} questions\n")
    rows = [(name, *(with_interval(by[budget][0]) for budget in BUDGETS)) for name, by in figures.items()]
    print("\n".join(markdown_lines(("policy", *(f"{budget:,} tokens" for budget in BUDGETS)), rows)))
    print(f"\nAt {tokens:,} tokens, by kind of question:\n")
    rows = [(name, *(with_interval(by[tokens][kind]) for kind in CATEGORIES)) for name, by in figures.items()]
    print("\n".join(markdown_lines(("policy", *CATEGORIES.values()), rows)))
    out.write_text(json.dumps({name: _as_json(by) for name, by in figures.items()}), encoding="utf-8")


def _as_json(by_budget: Mapping[int, Mapping[int, Estimate]]) -> dict[int, dict[int, Any]]:
    return {
        budget: {kind: {"mean": each.mean, "interval": [each.low, each.high]} for kind, each in kinds.items()}
        for budget, kinds in by_budget.items()
    }


if __name__ == "__main__":
    run(main)
