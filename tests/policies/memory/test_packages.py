"""Other packages' memories pass the tests that every memory passes, each in its own environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mnemotune.policies import MemoryPolicy
from mnemotune.policies.lm import LanguageModelError
from mnemotune.policies.lm.base import Completion, Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.metered import Metered
from mnemotune.policies.memory import MEMORIES
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe
from mnemotune.policies.memory.packages.process import PackageError, process_of

PACKAGES = ("mem0ai", "langmem")
TALK = [
    Message("user", "I moved to Lisbon in May and I work as a nurse. Which bakery opens early there?"),
    Message("assistant", "Try the one at the corner of the square."),
]


def policy_of(package: str, buffer_size: int = 2) -> MemoryPolicy:
    values = {"write": {"mode": "verbatim"}, "update_every": 2, "store": "external", "top_k": 30}
    return MemoryPolicy.model_validate({"backend": package, "buffer_size": buffer_size, **values})


class EmbeddedScribe(Scribe):
    """The embedded model, which reads what packages ask; it fails while ``fails`` is set."""

    def __init__(self) -> None:
        self.model = EmbeddedModel()

    async def complete(self, request: Request) -> Completion:
        if self.fails:
            raise LanguageModelError("this model fails")
        return await self.model.complete(request)


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> str:
    variable = f"MNEMOTUNE_{request.param.upper()}_PYTHON"
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no environment that has {request.param}")
    return str(request.param)


@pytest.mark.packages
@pytest.mark.timeout(900)
class TestPackages(MemoryConformance):
    rounds = 6

    @pytest.fixture
    def make(self, package: str) -> Make:
        return lambda model: MEMORIES.get(package)(policy_of(package), model, LexicalEmbedder())

    @pytest.fixture
    def model(self) -> Scribe:
        return EmbeddedScribe()

    async def test_its_calls_are_metered_as_writes_and_its_memories_come_back(self, package: str) -> None:
        model = Metered(EmbeddedModel())
        memory = MEMORIES.get(package)(policy_of(package, buffer_size=0), model, LexicalEmbedder())
        (event,) = await memory.observe(TALK)
        assert event.evicted == tuple(TALK)
        assert any("Lisbon" in line for line in event.after)
        assert set(model.ledger.by_role) == {"write"}
        context = await memory.context("What did the nurse from Lisbon ask?", tokens=100)
        assert any("Lisbon" in item.text for item in context.items)
        await memory.aclose()

    async def test_what_is_forgotten_is_in_no_file_of_the_package(self, package: str) -> None:
        memory = MEMORIES.get(package)(policy_of(package, buffer_size=0), EmbeddedModel(), LexicalEmbedder())
        await memory.observe(TALK)
        folder = process_of(package).folder
        assert package == "langmem" or holds(folder, b"Lisbon")
        assert await memory.forget(lambda text: "Lisbon" in text)
        await memory.context("Which bakery opens early?", tokens=100)  # what nobody holds goes with a request
        assert not holds(folder, b"Lisbon")
        await memory.aclose()


def holds(folder: Path, text: bytes) -> bool:
    return any(text in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_without_an_environment_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNEMOTUNE_MEM0AI_PYTHON", raising=False)
    with pytest.raises(PackageError, match="set MNEMOTUNE_MEM0AI_PYTHON to the python of that environment"):
        MEMORIES.get("mem0ai")(policy_of("mem0ai"), EmbeddedModel(), LexicalEmbedder())
