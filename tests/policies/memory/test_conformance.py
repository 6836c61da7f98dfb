"""Every memory passes the tests that ship: the built-in one under its kinds of policies, and one of another package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.policies import PolicyError, load_policy
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import MEMORIES, BuiltinMemory, open_memory
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe, observe, talk

if TYPE_CHECKING:
    from ..conftest import MakePolicy

STORES = {"context": {"store": "context"}, "external": {"store": "external", "top_k": 5}}
KINDS = [("none", "context"), *((m, s) for m in ("verbatim", "facts", "profile") for s in STORES)]
COMPACTING: dict[str, tuple[str, dict[str, Any]]] = {
    "pinned": ("none", {"keep_first": 3}),
    "masked": ("none", {"mask": 5}),
    "pinned and masked": ("verbatim", {"keep_first": 1, "mask": 3, "buffer_size": 6}),
    "summary": ("summary", {"buffer_size": 4}),
    "short summary": ("summary", {"write": {"mode": "summary", "tokens": 16}, "keep_first": 2, "mask": 2}),
    "schema": ("profile", {"write": {"mode": "profile", "labels": ["facts"]}, "keep_first": 2}),
}


class TestBuiltinMemory(MemoryConformance):
    @pytest.fixture(params=KINDS, ids="+".join)
    def make(self, request: pytest.FixtureRequest, make_policy: MakePolicy) -> Make:
        mode, store = request.param
        numbers: dict[str, Any] = {} if mode == "none" else {**STORES[store], "buffer_size": 4}
        return lambda model: BuiltinMemory(make_policy(mode, **numbers), model, LexicalEmbedder())


class TestCompaction(MemoryConformance):
    @pytest.fixture(params=COMPACTING)
    def make(self, request: pytest.FixtureRequest, make_policy: MakePolicy) -> Make:
        mode, changes = COMPACTING[request.param]
        return lambda model: BuiltinMemory(make_policy(mode, **changes), model, LexicalEmbedder())


NOTEBOOK = '''
from dataclasses import replace

from mnemotune.policies.memory import Context, Item, MemoryEvent
from mnemotune.policies.memory.budget import within


class Notebook:
    """Writes down every message by itself, and shows the notes that share a word with the query."""

    def __init__(self, policy, model, embedder):
        self.policy, self.notes, self.count = policy, (), 0

    async def observe(self, messages):
        before = self._texts
        new = [Item(f"note {self.count + i}", message.text) for i, message in enumerate(messages)]
        self.notes, self.count = (*self.notes, *new), self.count + len(new)
        return [MemoryEvent(tuple(messages), before, self._texts)]

    async def context(self, query, *, tokens):
        shared = [note for note in self.notes if set(query.split()) & set(note.text.split())]
        items = tuple(replace(note, rank=len(shared) - 1 - i) for i, note in enumerate(shared))
        return within(Context(items, (), "Notes:\\n{memories}"), tokens, buffer_share=0.5)

    async def listing(self):
        return list(self.notes)

    async def snapshot(self):
        return self.notes, self.count

    async def restore(self, state):
        self.notes, self.count = state

    async def fork(self, *, memories=True):
        other = Notebook(self.policy, None, None)
        await other.restore((self.notes if memories else (), self.count))
        return other

    async def adopt(self, policy):
        self.policy = policy

    async def forget(self, what):
        kept = tuple(note for note in self.notes if not what(note.text))
        gone, self.notes = len(self.notes) - len(kept), kept
        return gone

    async def aclose(self):
        pass

    @property
    def _texts(self):
        return tuple(note.text for note in self.notes)
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package that brings a memory along."""
    (tmp_path / "notebooks.py").write_text(NOTEBOOK, encoding="utf-8")
    about = tmp_path / "notebooks-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: notebooks\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[mnemotune.memories]\nnotebook = notebooks:Notebook\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    if "notebook" in vars(MEMORIES)["_parts"]:
        MEMORIES.unregister("notebook")


class TestMemoryOfAnotherPackage(MemoryConformance):
    @pytest.fixture
    def make(self, installed: None, make_policy: MakePolicy) -> Make:
        policy = make_policy("verbatim", backend="notebook")
        return lambda model: MEMORIES.get("notebook")(policy, model, LexicalEmbedder())

    async def test_a_policy_s_file_names_it(self, installed: None, tmp_path: Path) -> None:
        file = tmp_path / "mine.yaml"
        file.write_text("{backend: notebook, write: {mode: none}}", encoding="utf-8")
        memory = open_memory(load_policy(file), Scribe(), LexicalEmbedder())
        await observe(memory, talk("heron", 2))
        assert len(await memory.listing()) == 4
        assert memory.policy.label == "notebook:none"


class Forgetful(BuiltinMemory):
    """A memory with a defect: it says that it has forgotten, and has not."""

    async def forget(self, what: Any) -> int:
        state = await self.snapshot()
        gone = await super().forget(what)
        await self.restore(state)
        return gone


def test_a_defect_is_seen(make_policy: MakePolicy) -> None:
    def make(model: Any) -> Forgetful:
        return Forgetful(make_policy("verbatim"), model, LexicalEmbedder())

    with pytest.raises(AssertionError):
        asyncio.run(MemoryConformance().test_what_is_forgotten_is_gone(make, Scribe(), "first"))


def test_a_memory_that_nobody_brings_is_a_mistake_of_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{backend: elephant, write: {mode: none}}", encoding="utf-8")
    with pytest.raises(
        PolicyError,
        match=r"mine.yaml: backend: there is no memory 'elephant'; there are a-mem-package, builtin, ",
    ):
        load_policy(file)
    file.write_text("{backend: builtin, write: {mode: none}}", encoding="utf-8")
    with pytest.raises(PolicyError, match="backend: has no effect with the built-in memory; leave it out"):
        load_policy(file)


def test_a_policy_s_key_holds_its_backend() -> None:
    native = load_policy("native")
    assert native.model_copy(update={"backend": "notebook"}).key != native.key
