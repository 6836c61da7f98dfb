"""Several rounds that are observed at once are written as they would be one by one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.deploy import MemoryStore
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.base import ToolCall
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory.conformance import Scribe

if TYPE_CHECKING:
    from ..conftest import MakePolicy


@pytest.fixture
def store(tmp_path: Path, make_policy: MakePolicy) -> MemoryStore:
    return MemoryStore(
        tmp_path / "users.db",
        make_policy("verbatim", update_every=2, buffer_size=4, store="external", top_k=3),
        Scribe(),
        LexicalEmbedder(),
    )


def said(i: int) -> list[Message]:
    return [Message("user", f"I say {i}."), Message("assistant", f"You said {i}.")]


async def test_a_long_talk_at_once_leaves_no_more_in_the_buffer_than_round_by_round(store: MemoryStore) -> None:
    whole, apart = store.memory("whole"), store.memory("apart")
    await whole.observe([message for i in range(9) for message in said(i)])
    for i in range(9):
        await apart.observe(said(i))
    assert await whole.snapshot() == await apart.snapshot()
    assert len((await whole.snapshot()).buffer) == 4
    store.close()


async def test_messages_of_a_user_in_a_row_and_calls_of_tools_are_rounds_too(store: MemoryStore) -> None:
    ann = store.memory("ann")
    await ann.observe([Message("user", f"I say {i}.") for i in range(9)])
    assert len((await ann.snapshot()).buffer) <= 5
    call = Message("assistant", "", (ToolCall("1", "look", "{}"),))
    steps = [call, Message("tool", "A heron.", tool_call_id="1")]
    await ann.observe([Message("user", "Look around."), *steps, *steps, *steps, Message("assistant", "Herons.")])
    buffer = (await ann.snapshot()).buffer
    assert len(buffer) <= 5
    assert buffer[0].role != "tool"
    store.close()
