"""An author of lives whose replies a test can spoil, and texts that say what is asked.

The author is the embedded model: what it says depends on the messages alone.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mnemotune.env.dialogue.generation.generation import Generated, GenerationSetup, generate
from mnemotune.env.dialogue.generation.plan import GenerationPlan
from mnemotune.env.dialogue.generation.texts import GenerationTexts
from mnemotune.policies.lm import Completion, LanguageModel, Request, Usage
from mnemotune.policies.lm.embedded import EmbeddedModel

Spoil = Callable[[str, Request], str | None]
Delay = Callable[[Request], float]


def kind_of(request: Request) -> str:
    """Return which of the texts was asked with."""
    found = re.match(r"\[(\w+)\]\n", request.messages[0].content)
    assert found is not None
    return found[1]


class Author(LanguageModel):
    """Says what the embedded model would, unless ``spoil`` has something else to say for a kind of prompt."""

    name = "author"

    def __init__(self, spoil: Spoil = lambda kind, request: None, *, delay: Delay | None = None) -> None:
        self.requests: list[Request] = []
        self._spoil, self._delay, self._inner = spoil, delay, EmbeddedModel()

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        if self._delay is not None:
            await asyncio.sleep(self._delay(request))
        spoilt = self._spoil(kind_of(request), request)
        if spoilt is not None:
            return Completion(spoilt, Usage(7, 3))
        return await self._inner.complete(replace(request, messages=request.messages[:1]))

    async def aclose(self) -> None:
        pass

    @property
    def kinds(self) -> Counter[str]:
        """How often each of the texts was asked with."""
        return Counter(kind_of(request) for request in self.requests)

    def asked(self, kind: str) -> list[Request]:
        return [request for request in self.requests if kind_of(request) == kind]


TAGGED = GenerationTexts(
    **{kind: f"[{kind}]\n{getattr(GenerationTexts.bundled(), kind)}" for kind in GenerationTexts.slots()}
)
PLAN = GenerationPlan(users=2, questions=3, periods=2, changes_per_period=2, refinements=3)


@pytest.fixture(scope="session")
def tagged() -> GenerationTexts:
    """The bundled texts, each with its name in front."""
    return TAGGED


@pytest.fixture(scope="session")
def plan() -> GenerationPlan:
    """Two users whose lives are short."""
    return PLAN


@pytest.fixture(scope="session")
def make_author() -> Callable[..., Author]:
    return Author


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Generated]:
    """Make users in a folder of this test; ``plan`` values and setup fields may be given."""

    def made(model: LanguageModel, *, parts: str = "parts", **given: Any) -> Generated:
        fields = {name: given.pop(name) for name in ("personas", "compat", "texts") if name in given}
        setup = GenerationSetup(**{"plan": PLAN.model_copy(update=given), "texts": TAGGED} | fields)
        return asyncio.run(generate(setup, model, tmp_path / parts))

    return made
