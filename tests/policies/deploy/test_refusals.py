"""What becomes of messages that a model refuses to write down, in a store and behind what other packages ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.policies.deploy import MemoryStore, UserMemory
from mnemotune.policies.deploy.agents_session import MemorySession
from mnemotune.policies.lm import LanguageModelError, Message, Refused, Request
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory.conformance import Scribe

if TYPE_CHECKING:
    from ..conftest import MakePolicy


class Picky(Scribe):
    """Refuses to write of what it is told to."""

    word = "wolf"

    async def complete(self, request: Request) -> Any:
        if any(self.word in message.content for message in request.messages):
            raise Refused(f"no {self.word}")
        return await super().complete(request)


@pytest.fixture
def model() -> Picky:
    return Picky()


@pytest.fixture
def ann(tmp_path: Path, make_policy: MakePolicy, model: Picky) -> Iterator[UserMemory]:
    policy = make_policy("facts", update_every=4, buffer_size=0)
    with MemoryStore(tmp_path / "users.db", policy, model, LexicalEmbedder()) as store:
        yield store.memory("ann")


def said(text: str) -> list[Message]:
    return [Message("user", text), Message("assistant", "I see.")]


async def facts(memory: UserMemory) -> list[str]:
    return [*dict.fromkeys(item.text for item in await memory.listing())]


async def test_a_buffer_that_is_refused_is_dropped_at_the_second_refusal(
    ann: UserMemory, caplog: pytest.LogCaptureFixture
) -> None:
    await ann.observe(said("I saw a wolf."))
    with pytest.raises(Refused, match="no wolf"):
        await ann.observe(said("I saw heron-1."))
    await ann.observe(said("I saw heron-2."))
    await ann.observe(said("I saw heron-3."))
    assert await facts(ann) == ["The user said heron-2.", "The user said heron-3."]
    assert "user ann: 2 messages are not remembered, for the model refuses to write them: no wolf" in caplog.text


async def test_a_refusal_costs_no_message_but_the_refused_one(ann: UserMemory) -> None:
    await ann.observe(said("I saw heron-1."))
    with pytest.raises(Refused):
        await ann.observe(said("I saw a wolf."))
    await ann.observe(said("I saw heron-2."))
    assert await facts(ann) == ["The user said heron-1.", "The user said heron-2."]
    await ann.observe(said("I saw heron-3."))
    with pytest.raises(Refused):
        await ann.observe(said("I saw another wolf."))
    await ann.observe(said("I saw heron-4."))
    assert (await facts(ann))[2:] == ["The user said heron-3.", "The user said heron-4."], "a write lies between"


async def test_what_waits_and_is_refused_holds_up_nothing(ann: UserMemory, caplog: pytest.LogCaptureFixture) -> None:
    for text in ("I saw heron-1.", "I saw a wolf.", "I saw heron-2."):
        ann.queue(said(text))
    await ann.catch_up()
    assert await facts(ann) == ["The user said heron-1.", "The user said heron-2."]
    assert ann.store.users_waiting() == []
    assert caplog.text.count("messages are not remembered") == 1


async def test_nothing_is_dropped_where_the_model_refuses_whatever_it_is_asked(ann: UserMemory, model: Picky) -> None:
    model.word = ""
    await ann.observe(said("I saw heron-1."))
    ann.queue(said("I saw heron-2."))
    for _ in range(3):
        with pytest.raises(LanguageModelError, match="the model refuses whatever it is asked") as error:
            await ann.catch_up()
        assert not isinstance(error.value, Refused)
    model.word = "wolf"
    await ann.catch_up()
    assert await facts(ann) == ["The user said heron-1.", "The user said heron-2."]


async def test_an_agent_s_session_goes_on_after_a_message_that_is_refused(ann: UserMemory) -> None:
    session = MemorySession(ann)
    for text in ("I saw a wolf.", "I saw heron-1.", "I saw heron-2.", "I saw heron-3.", "I go home."):
        await session.add_items([{"role": "user", "content": text}, {"role": "assistant", "content": "I see."}])
    assert await facts(ann) == ["The user said heron-2.", "The user said heron-3."]
