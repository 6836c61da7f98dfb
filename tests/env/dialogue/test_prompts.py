"""Every prompt as a model gets it, beside what was committed: a change of text is seen.

``SNAPSHOTS=write pytest tests/env/dialogue/test_prompts.py`` writes them anew: look at the difference first.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Cast, Evaluator, Protocol
from mnemotune.env.dialogue.track import DialogueTrack
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import Completion, LanguageModel, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from people import short_lives

FOLDER = Path(__file__).parent / "prompts"


class Noted(LanguageModel):
    """The embedded model, with the longest request of each role."""

    name = "noted"

    def __init__(self) -> None:
        self.inner = EmbeddedModel()
        self.longest: dict[str, Request] = {}

    async def complete(self, request: Request) -> Completion:
        merges = '"memory"' in request.messages[-1].content
        kind = f"{request.role}, merging" if request.role == "write" and merges else request.role
        if kind not in self.longest or _size(request) > _size(self.longest[kind]):
            self.longest[kind] = request
        return await self.inner.complete(request)

    async def aclose(self) -> None:
        pass

    def told(self) -> str:
        """Return the requests as text."""
        parts = []
        for kind, request in sorted(self.longest.items()):
            parts.append(f"##### {kind}" + (" (JSON mode)" if request.json_mode else ""))
            parts += [f"--- {message.role}\n{message.content}" for message in request.messages]
        return "\n".join(parts) + "\n"


def _size(request: Request) -> tuple[int, str]:
    """Order requests by length, whenever they come."""
    text = "".join(message.content for message in request.messages)
    return len(text), text


@pytest.fixture(scope="module")
def ann() -> Scenario:
    (row,) = short_lives(users=1, periods=2, questions=1)
    return Scenario.parse(row)


@pytest.mark.parametrize("preset", presets())
def test_the_prompts_of_a_preset_are_the_committed_ones(ann: Scenario, preset: str) -> None:
    model = Noted()
    track = DialogueTrack(Protocol(1, 2))
    asyncio.run(Evaluator(track, Cast(model, model, LexicalEmbedder())).evaluate(load_policy(preset), [ann]))
    snapshot = FOLDER / f"{preset}.txt"
    if os.environ.get("SNAPSHOTS") == "write":
        snapshot.write_text(model.told(), encoding="utf-8")
    assert model.told() == snapshot.read_text(encoding="utf-8")


def test_no_snapshot_is_left_of_a_preset_that_is_gone() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(presets())
