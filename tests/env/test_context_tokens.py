"""One budget for what memory puts before the model, kept in every call of an episode.

Invariants, for every policy and every budget:

1. No reply, answer or probe is asked with more tokens of context than the budget.
2. What an episode says of its use is what the requests held.
3. Without a budget the requests are what they were.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lives import life
from mnemotune.data import Scenario
from mnemotune.env import Cast, Evaluator, Protocol, Summary
from mnemotune.env.dialogue.track import DialogueTrack
from mnemotune.env.episode import write_episodes
from mnemotune.policies import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder

TRACK = DialogueTrack(Protocol(1, 1))
PRESETS = ("native", "rag", "awe", "awi")
WITH_MEMORY = {"reply", "answer", "probe"}


class Noted(LanguageModel):
    """The embedded model, with the context of every call that memory takes part in: all messages but the last."""

    name = "noted"

    def __init__(self) -> None:
        self.inner = EmbeddedModel()
        self.context: dict[str, list[int]] = {}

    async def complete(self, request: Request) -> Completion:
        if request.role in WITH_MEMORY:
            *context, _ = request.messages
            self.context.setdefault(request.role, []).append(sum(message.tokens for message in context))
        return await self.inner.complete(request)

    async def aclose(self) -> None:
        pass


@pytest.fixture(scope="module")
def ann() -> Scenario:
    words = "and then we went home over the hills with all that we had bought on the market in the morning"
    return life(
        "ann",
        sessions=(3, 2, 2),
        news=[{"pet_0": "low"}, {"pet_0": "mid"}, {}],
        says=lambda p, s: f"Period {p}, session {s}: {words}.",
        values=("low", "mid"),
        qas=[
            {
                "query": "What does ann need?",
                "required_info": ["pet_0"],
                "answer_choices": [{"state": [value], "answer": f"Fit for {value}"} for value in ("low", "mid")],
            }
        ],
    )


def played(ann: Scenario, preset: str, tokens: int | None) -> tuple[Noted, Any]:
    model = Noted()
    cast = Cast(model, EmbeddedModel(), LexicalEmbedder(), tokens)
    return model, asyncio.run(Evaluator(TRACK, cast).evaluate(load_policy(preset), [ann]))


@given(preset=st.sampled_from(PRESETS), tokens=st.integers(1, 700))
@settings(max_examples=40)
def test_no_call_shows_more_than_the_budget_invariants_1_2(ann: Scenario, preset: str, tokens: int) -> None:
    model, evaluation = played(ann, preset, tokens)
    assert max(map(max, model.context.values())) <= tokens
    uses = evaluation.episodes[0].uses
    assert {role: (use.calls, use.tokens, use.most_tokens) for role, use in uses.items()} == {
        role: (len(shown), sum(shown), max(shown)) for role, shown in model.context.items()
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_a_budget_that_everything_fits_into_changes_nothing_invariant_3(ann: Scenario, preset: str) -> None:
    (free, evaluation), (ample, other) = played(ann, preset, None), played(ann, preset, 10**6)
    assert free.context == ample.context
    assert evaluation.episodes == other.episodes


def test_a_tight_budget_leaves_something_out_and_says_how_much(ann: Scenario, tmp_path: Path) -> None:
    _, evaluation = played(ann, "native", 60)
    summary = Summary.of(evaluation, name="native")
    assert 0 < summary.most_context_tokens <= 60
    assert summary.context["answer"].left_out > 0
    assert Summary.from_json(summary.as_json()) == summary
    write_episodes(tmp_path, evaluation.episodes)
    assert '"left_out"' in (tmp_path / "episodes.jsonl").read_text(encoding="utf-8")
