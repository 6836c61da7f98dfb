"""Fakes for what a memory talks to: a model that says what a test has written down, vectors that a test has chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from mnemotune.policies import MemoryPolicy
from mnemotune.policies.lm import Completion, Embedder, Embedding, LanguageModel, Message, Request, Usage

MakeModel = Callable[..., "ScriptedModel"]
MakeEmbedder = Callable[..., "ChosenVectors"]
MakePolicy = Callable[..., MemoryPolicy]
Pair = Callable[..., list[Message]]


class ScriptedModel(LanguageModel):
    """Says the given texts in their order, the last one for ever, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, *texts: str) -> None:
        self.requests: list[Request] = []
        self.closed = 0
        self._texts = list(texts) or ["fine"]

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        text = self._texts[0] if len(self._texts) == 1 else self._texts.pop(0)
        return Completion(text, Usage(7, 3))

    async def aclose(self) -> None:
        self.closed += 1

    @property
    def prompts(self) -> list[str]:
        """The last message of each request."""
        return [request.messages[-1].content for request in self.requests]


class ChosenVectors(Embedder):
    """Gives each text the vector that the test has chosen, and remembers what it was asked."""

    name = "chosen"

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._vectors = vectors

    async def embed(self, texts: Sequence[str], **_: Any) -> Embedding:
        self.asked.append(tuple(texts))
        return Embedding(np.array([self._vectors[text] for text in texts], dtype=np.float32))

    async def aclose(self) -> None:
        """Nothing to release."""


def _policy(mode: str, **changes: Any) -> MemoryPolicy:
    """Make a policy whose prompts hold their slots and little else; with (2, 2) every round but the last is written."""
    prompts = {
        "write": "{memories}|{conversation}",
        "merge": "{memories}|{facts}",
        "reply": "I know:\n{memories}",
    }
    used = {"none": "", "verbatim": "reply", "facts": "write merge reply"}
    slots = used.get(mode, "write reply").split()
    point: dict[str, Any] = {"write": {"mode": mode}, "prompts": {slot: prompts[slot] for slot in slots}}
    if changes.get("write", {}).get("labels"):
        point["prompts"]["write"] += "|{labels}"
    if mode != "none":
        point |= {"update_every": 2, "buffer_size": 2} | ({} if mode == "summary" else {"store": "context"})
    return MemoryPolicy.model_validate(point | changes)


def _pair(user: str, assistant: str = "I see.") -> list[Message]:
    return [Message("user", user), Message("assistant", assistant)]


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    return ScriptedModel


@pytest.fixture(scope="session")
def make_embedder() -> MakeEmbedder:
    return ChosenVectors


@pytest.fixture(scope="session")
def make_policy() -> MakePolicy:
    return _policy


@pytest.fixture(scope="session")
def pair() -> Pair:
    """Make one round: a user's message and the assistant's reply."""
    return _pair


@pytest.fixture(scope="session")
def rounds() -> Callable[[int], Iterable[list[Message]]]:
    """Make numbered rounds."""
    return lambda count: [_pair(f"I say {i}.", f"You said {i}.") for i in range(count)]
