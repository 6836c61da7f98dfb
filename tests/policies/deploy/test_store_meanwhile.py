"""What becomes of a user's memory where something else happens in the middle of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.policies import Assistant, NotRemembered, load_policy
from mnemotune.policies.deploy import MemoryStore, UserMemory
from mnemotune.policies.deploy.agents_session import MemorySession
from mnemotune.policies.deploy.store import HARMLESS
from mnemotune.policies.lm import LanguageModelError, Message, Refused, Request
from mnemotune.policies.lm.base import Embedding
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory.conformance import Scribe

if TYPE_CHECKING:
    from ..conftest import MakePolicy


class Gated(Scribe):
    """Waits while its gate is shut, in each call or in harmless ones alone; fails or refuses the next so many calls."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.only_harmless = False
        self.refusals = self.failures = 0

    async def complete(self, request: Request) -> Any:
        harmless = request == HARMLESS
        if harmless or not self.only_harmless:
            self.asked.set()
            await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise LanguageModelError("it is down")
        if self.refusals and not harmless:
            self.refusals -= 1
            raise Refused("no")
        return await super().complete(request)


@pytest.fixture
def model() -> Gated:
    return Gated()


@pytest.fixture
def store(tmp_path: Path, make_policy: MakePolicy, model: Gated) -> Iterator[MemoryStore]:
    policy = make_policy("facts", update_every=2, buffer_size=0)
    with MemoryStore(tmp_path / "users.db", policy, model, LexicalEmbedder()) as opened:
        yield opened


@pytest.fixture
def ann(store: MemoryStore) -> UserMemory:
    return store.memory("ann")


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("users.db*"))


def said(text: str) -> list[Message]:
    return [Message("user", text), Message("assistant", "I see.")]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_user_who_is_deleted_during_a_write_stays_deleted(
    store: MemoryStore, ann: UserMemory, model: Gated, known: bool, waits: bool
) -> None:
    if known:
        model.gate.set()
        await ann.observe(said("I saw robin-1."))
        model.gate.clear()
        model.asked.clear()
    if waits:
        ann.queue(said("I saw wren-1."))
    writing = asyncio.create_task(ann.observe(said("I saw heron-1.")))
    await model.asked.wait()
    assert store.delete("ann")
    model.gate.set()
    await writing
    assert (store.users(), await ann.listing()) == ([], [])
    await ann.observe(said("I saw crow-1."))
    assert [item.text for item in await ann.listing()] == ["The user said crow-1."]


async def test_a_first_write_that_fails_leaves_nobody_behind(store: MemoryStore, ann: UserMemory, model: Gated) -> None:
    model.gate.set()
    model.failures = 1
    with pytest.raises(LanguageModelError, match="it is down"):
        await ann.observe(said("I saw heron-1."))
    assert store.users() == []
    await ann.observe(said("I saw heron-2."))
    assert [item.text for item in await ann.listing()] == ["The user said heron-2."]


async def test_the_first_messages_of_a_new_user_are_not_lost_where_another_s_write_fails(
    store: MemoryStore, ann: UserMemory, model: Gated, tmp_path: Path
) -> None:
    """Two processes observe the same new user's messages at once."""
    other_model = Gated()
    with MemoryStore(tmp_path / "users.db", store.policy, other_model, LexicalEmbedder()) as other:
        model.failures = 1
        failing = asyncio.create_task(ann.observe(said("I saw heron-1.")))
        writing = asyncio.create_task(other.memory("ann").observe(said("I saw robin-1.")))
        await model.asked.wait()
        await other_model.asked.wait()
        model.gate.set()
        with pytest.raises(LanguageModelError, match="it is down"):
            await failing
        other_model.gate.set()
        assert await writing
    assert [item.text for item in await ann.listing()] == ["The user said robin-1."]


async def test_what_is_forgotten_between_two_tries_to_write_it_stays_forgotten(
    store: MemoryStore, ann: UserMemory, model: Gated, tmp_path: Path
) -> None:
    """It waits; its first write is refused, and while the model is asked for something harmless it is forgotten."""
    model.gate.set()
    model.only_harmless = True
    await ann.observe(said("I saw robin-1."))
    model.refusals = 1
    ann.queue(said("I saw crow-1."))
    await ann.catch_up()
    ann.queue(said("I saw wren-1."))
    model.refusals = 1
    model.gate.clear()
    model.asked.clear()
    writing = asyncio.create_task(ann.catch_up())
    await model.asked.wait()
    with MemoryStore(tmp_path / "users.db", store.policy, Scribe(), LexicalEmbedder()) as other:
        assert await other.forget("ann", "wren-1") == ["I saw wren-1."]
    model.gate.set()
    await writing
    assert [item.text for item in await ann.listing()] == ["The user said robin-1."]
    assert b"wren" not in files(tmp_path)


async def test_a_session_lets_messages_wait_while_the_writer_is_down(
    ann: UserMemory, model: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    model.gate.set()
    session = MemorySession(ann)
    model.failures = 2
    for text in ("I saw heron-1.", "I saw heron-2.", "I saw heron-3."):
        await session.add_items([{"role": "user", "content": text}, {"role": "assistant", "content": "I see."}])
    assert caplog.text.count("user ann: what was said waits to be remembered: it is down") == 2
    await ann.catch_up()
    assert {item.text for item in await ann.listing()} == {f"The user said heron-{number}." for number in (1, 2, 3)}


async def test_a_reply_is_not_lost_where_the_store_cannot_be_written(tmp_path: Path) -> None:
    model = EmbeddedModel()
    with MemoryStore(tmp_path / "users.db", load_policy("native"), model, LexicalEmbedder()) as store:
        store._rows._connection.execute("PRAGMA max_page_count = 12")  # as where the disk is full
        assistant = Assistant(model, store.memory("ann"))
        with pytest.raises(NotRemembered, match=r"memory cannot be written: .*is full") as raised:
            await assistant.reply("I own a canoe. " * 10_000)
        assert "canoe" in raised.value.reply


class Wide(LexicalEmbedder):
    """Costs money, and its vectors have a width that a server may change."""

    def __init__(self, width: int) -> None:
        super().__init__(dimensions=width)
        self.asked: list[str] = []

    @property
    def name(self) -> str:
        return "wide"

    def worst_case(self, texts: Sequence[str]) -> Usage | None:
        return Usage(len(texts), 0)

    async def embed(self, texts: Sequence[str], **given: Any) -> Embedding:
        self.asked += texts
        return await super().embed(texts, **given)


async def test_vectors_of_another_width_than_an_embedder_has_now_are_asked_for_anew(
    tmp_path: Path, make_policy: MakePolicy
) -> None:
    policy = make_policy("verbatim", store="external", top_k=1, buffer_size=0)
    for width in (32, 64):
        embedder = Wide(width)
        with MemoryStore(tmp_path / "users.db", policy, Scribe(), embedder) as store:
            ann = store.memory("ann")
            if width == 32:
                await ann.observe([*said("I saw a heron."), *said("I own a canoe.")])
            shown = (await ann.context("Which canoe?", tokens=None)).render()
            assert any("canoe" in message.text for message in shown)
        assert len([text for text in embedder.asked if "own a canoe" in text]) == 1
