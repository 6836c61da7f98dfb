"""Every prompt of an episode and its questions as a model gets it, beside what was committed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Cast, Evaluator, Protocol
from mnemotune.env.dialogue.track import DialogueTrack
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import Completion, LanguageModel, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates
from people import short_lives
from snapshots import assert_committed, longest

FOLDER = Path(__file__).parent / "prompts"
REWORDED = Templates.bundled().answer_reworded.splitlines()[2]


class Noted(LanguageModel):
    """The embedded model, with what it was asked."""

    name = "noted"

    def __init__(self) -> None:
        self.inner = EmbeddedModel()
        self.asked: list[tuple[str, Request]] = []

    async def complete(self, request: Request) -> Completion:
        merges = request.role == "write" and '"memory"' in request.messages[-1].content
        reworded = REWORDED in request.messages[-1].content
        kind = "answer, reworded" if reworded else f"{request.role}, merging" if merges else request.role
        self.asked.append((kind, request))
        return await self.inner.complete(request)

    async def aclose(self) -> None:
        pass


@pytest.fixture(scope="module")
def ann() -> Scenario:
    (row,) = short_lives(users=1, periods=2, questions=1)
    return Scenario.parse(row)


@pytest.mark.parametrize("preset", presets())
def test_the_prompts_of_a_preset_are_the_committed_ones(ann: Scenario, preset: str) -> None:
    model = Noted()
    track = DialogueTrack(Protocol(1, 2))
    cast = Cast(model, model, LexicalEmbedder(), reworded=True)
    asyncio.run(Evaluator(track, cast).evaluate(load_policy(preset), [ann]))
    assert_committed(longest(model.asked), FOLDER / f"{preset}.txt")


def test_no_snapshot_is_left_of_a_preset_that_is_gone() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(presets())
