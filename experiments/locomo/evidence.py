"""Evidence recall on LoCoMo's conversations: what memory shows within a budget, whoever reads it.

python -m mnemotune.experiments.locomo.evidence OUT --data LOCOMO/data/locomo10.json [POLICY ...]

Memory hears both speakers, one message at a time. A policy is a preset, also one after a published memory (mem0,
mem0-g, a-mem, ace, nemori, letta), or a file. Intervals are over conversations, and so are the differences from the
best preset, paired. The data is not ours to ship: it is in the repository dial481/locomo (CC BY-NC 4.0).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ...data.conversations.locomo import KINDS as LOCOMO_KINDS
from ...data.conversations.locomo import read_locomo
from ...data.conversations.omissions import Omissions
from ...data.conversations.task import ABSTENTION, ConversationTask, Question
from ...env.evidence import pieces_of, stands_in
from ...env.statistics import estimate, nan_mean
from ...env.summary import json_number
from ...optimizer.views.table import markdown_lines
from ...policies import Assistant, load_policy
from ...policies.lm import Message
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.memory import open_memory
from ..command import run
from ..memories.rows import PRESETS
from .beside import ByConversation, cell, gain_lines

KINDS = tuple(kind for kind in LOCOMO_KINDS.values() if kind != ABSTENTION)
"""The kinds of questions that something which was said answers."""
ALL = "all questions"
BUDGETS = (250, 500, 1000, 2000)
"""Context tokens."""
ByBudget = Mapping[int, Mapping[str, ByConversation]]
"""A policy's evidence recall by budget, kind and conversation."""


def messages_of(talk: ConversationTask) -> list[Message]:
    """Return what is said, each message with its speaker's name; all are a user's, for nobody here is the assistant."""
    utterances = (utterance for session in talk.sessions for utterance in session.utterances)
    return [Message("user", f"{utterance.speaker}: {utterance.text}") for utterance in utterances]


def questions_of(talk: ConversationTask) -> list[Question]:
    """Return the questions that something which was said answers."""
    return [question for question in talk.questions if question.kind in KINDS]


async def recalls(talk: ConversationTask, policy: str, *, budgets: Sequence[int]) -> dict[int, dict[str, float]]:
    """Return a policy's evidence recall by budget and kind; NaN where a kind has no question."""
    model = EmbeddedModel()
    memory = open_memory(load_policy(policy), model, LexicalEmbedder(dimensions=1024))
    for message in messages_of(talk):
        await memory.observe([message])
    found: dict[int, dict[str, float]] = {}
    for tokens in budgets:
        assistant = Assistant(model, memory, context_tokens=tokens)
        shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for question in questions_of(talk):
            pieces = pieces_of(await assistant.context(question.text))
            shown = [stands_in(talk.places[turn][1].text, pieces) for turn in question.evidence]
            shares[question.kind].append(sum(shown) / len(shown))
        found[tokens] = {kind: nan_mean(values) for kind, values in shares.items()}
        found[tokens][ALL] = nan_mean([value for values in shares.values() for value in values])
    await memory.aclose()
    return found


def main(
    out: Annotated[Path, typer.Argument(help="The JSON file to write.")],
    data: Annotated[Path, typer.Option(help="LoCoMo's locomo10.json.")],
    policies: Annotated[
        list[str] | None, typer.Argument(help="Presets or files; window, rag, awe, awi by default.")
    ] = None,
    tokens: Annotated[int, typer.Option(help="The budget at which recall is told by kind of question.")] = 1000,
) -> None:
    """Measure recall by budget and by kind of question, each conversation a group."""
    conversations = list(read_locomo(data, Omissions()))
    budgets, figures = sorted({*BUDGETS, tokens}), dict[str, ByBudget]()
    for policy in policies or PRESETS:
        each = {talk.id: asyncio.run(recalls(talk, policy, budgets=budgets)) for talk in conversations}
        figures[policy] = {
            budget: {kind: {talk: found[budget][kind] for talk, found in each.items()} for kind in (ALL, *KINDS)}
            for budget in budgets
        }
    questions = sum(len(questions_of(talk)) for talk in conversations)
    print(f"\n{len(conversations)} conversations, {questions:,} questions\n")
    rows = [(name, *(cell(by[budget][ALL]) for budget in budgets)) for name, by in figures.items()]
    print("\n".join(markdown_lines(("policy", *(f"{budget:,} tokens" for budget in budgets)), rows)))
    print(f"\nAt {tokens:,} tokens, by kind of question:\n")
    rows = [(name, *(cell(by[tokens][kind]) for kind in KINDS)) for name, by in figures.items()]
    print("\n".join(markdown_lines(("policy", *KINDS), rows)))
    print("\n".join(gain_lines({name: by[tokens] for name, by in figures.items()}, (ALL, *KINDS), by=ALL)))
    out.write_text(json.dumps({name: _as_json(by) for name, by in figures.items()}), encoding="utf-8")


def _as_json(by_budget: ByBudget) -> dict[int, dict[str, Any]]:
    return {budget: {kind: _figure(each) for kind, each in kinds.items()} for budget, kinds in by_budget.items()}


def _figure(recall: ByConversation) -> dict[str, Any]:
    over = estimate([*recall.values()])
    by_conversation = {talk: json_number(value) for talk, value in recall.items()}
    interval = [json_number(over.low), json_number(over.high)]
    return {"mean": json_number(over.mean), "interval": interval, "by_conversation": by_conversation}


if __name__ == "__main__":
    run(main)
