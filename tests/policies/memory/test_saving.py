"""Memories in files.

Invariants:

1. What is saved comes back, whatever it is (also ``MemoryConformance``).
2. A damaged file is refused with the file's name and the field's, and the memory stays as it was.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.base import ToolCall
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import (
    BuiltinMemory,
    Memory,
    SavedMemoryError,
    dump_memory,
    load_memory,
    restore_memory,
    save_memory,
)
from mnemotune.policies.memory.conformance import Scribe, observe, talk, view
from mnemotune.policies.memory.saving import SavedState, state_as_json, state_of
from mnemotune.policies.memory.stores import Entry, MemoryState

if TYPE_CHECKING:
    from ..conftest import MakeModel, MakePolicy, Pair

TEXTS = st.text(max_size=12)
CALLS = st.builds(ToolCall, TEXTS, TEXTS, TEXTS)
MESSAGES = st.one_of(
    st.builds(Message, st.sampled_from(["system", "user"]), TEXTS),
    st.builds(Message, st.just("assistant"), TEXTS, st.lists(CALLS, max_size=2).map(tuple)),
    st.builds(Message, st.just("tool"), TEXTS, tool_call_id=TEXTS),
)
SEVERAL = st.lists(MESSAGES, max_size=3).map(tuple)


@st.composite
def states(draw: st.DrawFn) -> MemoryState:
    ids = draw(st.lists(st.integers(0, 50), unique=True, max_size=5))
    entries = tuple(Entry(i, draw(TEXTS), draw(TEXTS)) for i in ids)
    return MemoryState(draw(SEVERAL), entries, 51, draw(SEVERAL), draw(st.integers(0, 99)))


def notebook(policy: Any) -> BuiltinMemory:
    return BuiltinMemory(policy, Scribe(), LexicalEmbedder())


@given(states())
def test_every_state_comes_back_from_its_file_even_half_characters(state: MemoryState) -> None:
    assert state_of(json.loads(json.dumps(state_as_json(state)))) == state


def test_no_field_of_a_state_is_left_out() -> None:
    assert {field.name for field in fields(MemoryState)} - {"_known"} == {*SavedState.model_fields}


async def test_a_memory_goes_on_under_another_policy(make_policy: MakePolicy, tmp_path: Path) -> None:
    memory = notebook(make_policy("profile"))
    await observe(memory, talk("heron", 5))
    file = tmp_path / "of" / "ann.json"
    await save_memory(memory, file)
    other = notebook(make_policy("facts", store="external", top_k=2))
    await load_memory(other, file)
    assert await other.listing() == await memory.listing()
    assert len((await view(other)).contexts[1].items) == 2, "its vectors were made again"


@pytest.mark.parametrize("mode", ["facts", "summary", "profile"])
async def test_a_writer_of_another_mode_sees_all_that_was_saved(
    mode: str, make_policy: MakePolicy, make_model: MakeModel, pair: Pair, tmp_path: Path
) -> None:
    model = make_model('{"Allergy": "peanuts", "Friend": "Ann"}')
    memory = BuiltinMemory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    await memory.observe(pair("Hello."))
    await save_memory(memory, tmp_path / "ann.json")
    reply = {
        "facts": '{"memory": [{"event": "UPDATE", "id": "1", "text": "Friend: Bob"}]}',
        "summary": '{"summary": "Allergy: peanuts\\nFriend: Bob"}',
        "profile": '{"Friend": "Bob"}',
    }[mode]
    replies = [reply] if mode != "facts" else ['{"facts": ["Bob is a friend"]}', reply]
    other = make_model(*replies)
    policy = make_policy(mode, buffer_size=0)
    loaded = BuiltinMemory(policy, other, LexicalEmbedder())
    await load_memory(loaded, tmp_path / "ann.json")
    await loaded.observe(pair("Bob is my friend."))
    assert "Allergy" in other.prompts[-1]
    assert [item.text for item in await loaded.listing()] == ["Allergy: peanuts", "Friend: Bob"]


async def test_facts_become_notes_without_a_label_of_a_profile(
    make_policy: MakePolicy, make_model: MakeModel, pair: Pair, tmp_path: Path
) -> None:
    facts = BuiltinMemory(
        make_policy("facts", buffer_size=0), make_model('{"facts": ["Likes tea", "Has a cat"]}'), LexicalEmbedder()
    )
    await facts.observe(pair("Hello."))
    await save_memory(facts, tmp_path / "ann.json")
    model = make_model('{"memory 1": "Has a dog", "City": "Oslo"}')
    loaded = BuiltinMemory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    await load_memory(loaded, tmp_path / "ann.json")
    await loaded.observe(pair("My cat is gone."))
    assert "Likes tea" in model.prompts[-1]
    assert [item.text for item in await loaded.listing()] == ["Likes tea", "Has a dog", "City: Oslo"]


SAVED = {
    "mnemotune_memory": 1,
    "backend": "builtin",
    "policy": "abc",
    "state": {
        "buffer": [{"role": "user", "content": "I swim."}],
        "entries": [{"id": 0, "text": "I golf."}, {"id": 1, "text": "tennis", "label": "sport"}],
        "next_id": 2,
    },
}


def damaged(*place: str | int, value: Any) -> str:
    saved = json.loads(json.dumps(SAVED))
    inner = saved
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    return json.dumps(saved)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON, or damaged: Expecting value: line 1 column 1"),
        (json.dumps(SAVED)[:-20], "not JSON, or damaged: "),
        ("[" * 100_000, "not JSON, or damaged: "),
        ("[]", "mnemotune_memory: missing; this is no saved memory"),
        ("{}", "mnemotune_memory: missing; this is no saved memory"),
        (damaged("mnemotune_memory", value=2), "mnemotune_memory: version 2 is not known here, where it is 1"),
        (damaged("mnemotune_memory", value=True), "mnemotune_memory: version True is not known here"),
        (damaged("backend", value="notebook"), "backend: 'notebook' has saved it, and this memory is 'builtin'"),
        (json.dumps({"mnemotune_memory": 1, "backend": "builtin"}), "state: missing"),
        (damaged("state", value=[]), "state.its fields: Input should be"),
        (damaged("state", "entries", 1, "text", value=7), "state.entries.1.text: Input should be a valid string"),
        (damaged("state", "entries", 1, "id", value=0), "state.its fields: entries: two of them have the same id"),
        (damaged("state", "next_id", value=1), "state.its fields: next_id: 1 is no larger than the id of an entry, 1"),
        (damaged("state", "buffer", 0, "role", value="tool"), "state.buffer.0: a message has a tool_call_id when"),
        (damaged("state", "links", value=[]), "state.links: Extra inputs are not permitted"),
    ],
)
async def test_a_damaged_file_is_refused_and_says_where(text: str, problem: str, make_policy: MakePolicy) -> None:
    memory = notebook(make_policy("verbatim"))
    await observe(memory, talk("heron", 3))
    before = await memory.snapshot()
    with pytest.raises(SavedMemoryError) as error:
        await restore_memory(memory, text, where="ann.json")
    assert str(error.value).startswith(f"ann.json: {problem}")
    assert await memory.snapshot() == before


async def test_a_file_that_is_not_there_is_named(make_policy: MakePolicy, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"ann\.json"):
        await load_memory(notebook(make_policy("verbatim")), tmp_path / "ann.json")


async def test_a_memory_that_cannot_be_saved_says_so(make_policy: MakePolicy) -> None:
    class Fleeting:
        policy = make_policy("verbatim", backend="fleeting")

    memory: Memory = Fleeting()  # type: ignore[assignment]
    with pytest.raises(SavedMemoryError, match="the memory 'fleeting' cannot be saved: it has no `dump` and `load`"):
        await dump_memory(memory)
