"""The memory that is built in, message by message.

Invariants:

1. Nothing is lost between the buffer and the writes: what was evicted, and then the buffer, is what was observed.
2. One ``observe`` sets off one write at most.
3. A fork, and a memory that was restored, go their own way.
4. A tool call leaves the buffer with its results.
5. What is forgotten is gone, and never comes back from a write that was under way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies import load_policy
from mnemotune.policies.lm import (
    Completion,
    Embedding,
    LanguageModel,
    LanguageModelError,
    Message,
    Request,
    ToolCall,
    Usage,
)
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import BuiltinMemory, open_memory
from mnemotune.policies.memory.stores import MemoryState
from remembering import lines, observe_all, preset, shown

if TYPE_CHECKING:
    from ..conftest import MakeModel, MakePolicy, Pair

Rounds = Callable[[int], Sequence[list[Message]]]

# Eviction, as AMemGym's add_msgs


async def test_with_two_and_four_the_third_round_writes_first_and_each_round_after_it(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = open_memory(
        make_policy("profile", update_every=2, buffer_size=4), make_model('{"a": "b"}'), LexicalEmbedder()
    )
    counts, windows = [], []
    for messages in rounds(7):
        counts.append(len(await memory.observe(messages)))
        windows.append(len((await memory.snapshot()).buffer))
    assert counts == [0, 0, 1, 1, 1, 1, 1]
    assert windows == [2, 4, 4, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("update_every", "buffer_size", "counts", "windows"),
    [
        (2, 0, [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]),
        (4, 4, [0, 0, 0, 1, 0, 1], [2, 4, 6, 4, 6, 4]),
        (6, 2, [0, 0, 0, 1, 0, 0], [2, 4, 6, 2, 4, 6]),
        (3, 0, [0, 1, 1, 0, 1, 1], [2, 1, 0, 2, 1, 0]),
        (1, 0, [1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6]),
        (2, 3, [0, 0, 1, 1, 1, 1], [2, 4, 4, 4, 4, 4]),
    ],
)
async def test_a_write_takes_the_oldest_messages_once_the_buffer_holds_enough(
    make_model: MakeModel,
    make_policy: MakePolicy,
    rounds: Rounds,
    update_every: int,
    buffer_size: int,
    counts: list[int],
    windows: list[int],
) -> None:
    policy = make_policy("verbatim", update_every=update_every, buffer_size=buffer_size)
    memory = open_memory(policy, make_model(), LexicalEmbedder())
    seen = []
    for messages in rounds(6):
        events = await memory.observe(messages)
        seen.append((len(events), len((await memory.snapshot()).buffer)))
        assert all(len(event.evicted) == update_every for event in events)
    assert seen == list(zip(counts, windows, strict=True))


@settings(deadline=None)
@given(
    update_every=st.integers(1, 7),
    buffer_size=st.integers(0, 7),
    sizes=st.lists(st.integers(0, 5), max_size=12),
    mode=st.sampled_from(["none", "verbatim"]),
)
async def test_what_was_evicted_and_the_buffer_are_what_was_observed(
    make_model: MakeModel,
    make_policy: MakePolicy,
    update_every: int,
    buffer_size: int,
    sizes: list[int],
    mode: str,
) -> None:
    memory = open_memory(
        make_policy(mode, update_every=update_every, buffer_size=buffer_size), make_model(), LexicalEmbedder()
    )
    observed: list[Message] = []
    evicted: list[Message] = []
    for size in sizes:
        new = [Message("user", str(len(observed) + i)) for i in range(size)]
        waiting = len(observed) - len(evicted) + size
        events = await memory.observe(new)
        observed += new
        due = waiting >= update_every + buffer_size
        assert len(events) == (due and mode != "none")
        evicted = observed[: len(evicted) + due * update_every]
        assert (await memory.snapshot()).buffer == tuple(observed[len(evicted) :])
        assert all(event.evicted == tuple(evicted[-update_every:]) for event in events)
    if mode == "verbatim":
        assert await lines(memory) == [f"user: {message.content}" for message in evicted]


async def test_native_keeps_every_message_and_writes_nothing(make_model: MakeModel, rounds: Rounds) -> None:
    model = make_model()
    memory = open_memory(load_policy("native"), model, LexicalEmbedder())
    assert await observe_all(memory, rounds(30)) == []
    assert await shown(memory, "What now?") == [message for messages in rounds(30) for message in messages]
    assert model.requests == []


async def test_a_window_alone_forgets_without_an_event(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = open_memory(make_policy("none", update_every=2, buffer_size=4), make_model(), LexicalEmbedder())
    assert await observe_all(memory, rounds(5)) == []
    assert await shown(memory, "What now?") == [message for messages in rounds(5)[3:] for message in messages]


# Snapshots and forks


async def test_a_memory_starts_empty(make_model: MakeModel, make_policy: MakePolicy) -> None:
    memory = open_memory(make_policy("facts"), make_model(), LexicalEmbedder())
    assert await memory.snapshot() == MemoryState()


async def test_a_snapshot_can_be_restored_also_into_another_memory(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    policy = make_policy("verbatim", store="external", top_k=3)
    memory = open_memory(policy, make_model(), LexicalEmbedder())
    await observe_all(memory, rounds(3))
    state, context = await memory.snapshot(), await shown(memory, "What did I say?")
    await observe_all(memory, rounds(2))
    assert await memory.snapshot() != state
    other = open_memory(policy, make_model(), LexicalEmbedder())
    for restored in (memory, other):
        await restored.restore(state)
        assert await restored.snapshot() == state
        assert await shown(restored, "What did I say?") == context
    (event,) = await other.observe(rounds(1)[0])
    assert event.before == tuple(entry.line for entry in state.entries)


async def test_forks_go_their_own_ways(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    policy = make_policy("verbatim", buffer_size=0, store="external", top_k=9)
    memory = open_memory(policy, make_model(), LexicalEmbedder())
    await memory.observe(pair("trunk", "t"))
    fork = await memory.fork()
    assert fork.policy == policy
    await memory.observe(pair("left", "l"))
    await fork.observe(pair("right", "r"))
    assert await lines(memory) == ["user: trunk", "assistant: t", "user: left", "assistant: l"]
    assert await lines(fork) == ["user: trunk", "assistant: t", "user: right", "assistant: r"]
    (left,), (right,) = await shown(memory, "left"), await shown(fork, "right")
    assert "right" not in left.content
    assert "left" not in right.content


# Tools


CALL = Message("assistant", "", (ToolCall("1", "search", '{"for": "boats"}'),))
RESULT = Message("tool", "Two boats.", tool_call_id="1")


async def test_a_tool_call_leaves_the_buffer_with_its_result(make_model: MakeModel, make_policy: MakePolicy) -> None:
    memory = open_memory(make_policy("verbatim", buffer_size=0), make_model(), LexicalEmbedder())
    assert await memory.observe([Message("user", "Boats?"), CALL]) != []
    assert await memory.observe([RESULT, Message("assistant", "Two.")]) != []
    assert await lines(memory) == [
        "user: Boats?",
        'assistant: search({"for": "boats"})',
        "tool: Two boats.",
    ]
    assert (await shown(memory, "Boats?"))[1:] == [Message("assistant", "Two.")]


async def test_a_tool_call_that_waits_for_its_result_stays(make_model: MakeModel, make_policy: MakePolicy) -> None:
    memory = open_memory(make_policy("verbatim", update_every=1, buffer_size=0), make_model(), LexicalEmbedder())
    assert await memory.observe([CALL]) == []
    (event,) = await memory.observe([RESULT])
    assert event.evicted == (CALL, RESULT)
    assert event.after == ('assistant: search({"for": "boats"})', "tool: Two boats.")


# Forgetting and failing


async def test_a_tool_call_is_forgotten_with_its_result(make_model: MakeModel, make_policy: MakePolicy) -> None:
    memory = open_memory(load_policy("native"), make_model(), LexicalEmbedder())
    await memory.observe([Message("user", "Hello."), CALL, RESULT])
    assert await memory.forget(lambda text: "Two" in text) == 2
    assert await shown(memory, "Boats?") == [Message("user", "Hello.")]


async def test_vectors_of_what_is_forgotten_go_too(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    model, policy = make_model(), make_policy("verbatim", buffer_size=0, store="external", top_k=9)
    memory = BuiltinMemory(policy, model, LexicalEmbedder())
    await memory.observe(pair("My pin is 1234.", "Noted."))
    await memory.context("pin", tokens=None)
    assert await memory.forget(lambda text: "1234" in text) == 1
    assert "1234" not in repr([vars(memory._index), memory._state, memory._state._known])
    assert [item.text for item in (await memory.context("pin", tokens=None)).items] == ["assistant: Noted."]


async def test_overwritten_vectors_go_too(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    policy = make_policy("verbatim", buffer_size=0, store="external", top_k=9)
    memory = BuiltinMemory(policy, make_model(), LexicalEmbedder())
    before = await memory.snapshot()
    await memory.observe(pair("My pin is 1234.", "Noted."))
    await memory.context("pin", tokens=None)
    await memory.restore(before)
    assert await memory.forget(lambda text: "1234" in text) == 0, "no memory has it any more"
    assert "1234" not in repr(vars(memory._index))


class SlowModel(LanguageModel):
    """Says what it heard, once it is allowed to, or fails."""

    name = "slow"

    def __init__(self) -> None:
        self.asked, self.allowed = asyncio.Event(), asyncio.Event()
        self.error: LanguageModelError | None = None

    async def complete(self, request: Request) -> Completion:
        self.asked.set()
        await self.allowed.wait()
        if self.error is not None:
            raise self.error
        return Completion('{"pin": "1234"}', Usage(1, 1))


async def test_what_is_forgotten_during_a_write_does_not_come_back(make_policy: MakePolicy, pair: Pair) -> None:
    model = SlowModel()
    memory = open_memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    writing = asyncio.create_task(memory.observe(pair("My pin is 1234.")))
    await model.asked.wait()
    forgetting = asyncio.create_task(memory.forget(lambda text: "1234" in text))
    assert await shown(memory, "Hi") == [Message("system", "I know:\n"), *pair("My pin is 1234.")]
    model.allowed.set()
    await asyncio.gather(writing, forgetting)
    assert (await memory.listing(), await shown(memory, "Hi")) == ([], [Message("system", "I know:\n")])


async def test_a_write_that_fails_or_is_cancelled_leaves_memory_as_it_was(make_policy: MakePolicy, pair: Pair) -> None:
    model = SlowModel()
    memory = open_memory(make_policy("profile"), model, LexicalEmbedder())
    await memory.observe(pair("First."))
    before = await memory.snapshot()
    writing = asyncio.create_task(memory.observe(pair("Second.")))
    await model.asked.wait()
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert await memory.snapshot() == before
    model.error = LanguageModelError("no write today")
    model.allowed.set()
    with pytest.raises(LanguageModelError, match="no write today"):
        await memory.observe(pair("Second."))
    assert await memory.snapshot() == before


async def test_a_memory_goes_on_under_a_rewritten_policy(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = open_memory(make_policy("verbatim"), make_model(), LexicalEmbedder())
    await observe_all(memory, rounds(2))
    policy = make_policy("verbatim", prompts={"reply": "Known:\n{memories}"})
    await memory.adopt(policy)
    assert memory.policy == policy
    assert (await shown(memory, "Hi"))[0].content == "Known:\n- user: I say 0.\n- assistant: You said 0."


class Waiting(LexicalEmbedder):
    """An embedder that answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()

    async def embed(self, texts: Sequence[str]) -> Embedding:
        await self.open.wait()
        return await super().embed(texts)


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("rag", {}),
        ("a-mem", {"notes": [{"message": "1", "keywords": ["asthma"]}]}),
        ("mem0", {"facts": [{"text": f"Ann {what}", "entities": ["Ann"]} for what in ("has asthma", "likes tea")]}),
        ("mem0-g", {"facts": [{"source": "Ann", "relation": "has", "target": what} for what in ("asthma", "tea")]}),
        ("letta", {"core": [{"event": event, "text": "Ann has asthma"} for event in ("APPEND", "ARCHIVE")]}),
    ],
)
async def test_what_is_forgotten_while_a_context_is_under_way_is_not_in_it_invariant_5(
    make_model: MakeModel, name: str, reply: object
) -> None:
    embedder = Waiting()
    memory = open_memory(preset(name, buffer_size=2, top_k=1), make_model(json.dumps(reply)), embedder)
    await memory.observe([Message("user", "Ann has asthma"), Message("assistant", "Ann likes tea")])
    await memory.observe([Message("user", "Ann takes asthma spray"), Message("assistant", "Fine")])
    await memory.context("tea", tokens=None)
    embedder.open.clear()
    context = asyncio.create_task(memory.context("Ann likes tea", tokens=None))
    await asyncio.sleep(0)
    assert await memory.forget(lambda text: "asthma" in text)
    embedder.open.set()
    found = await context
    assert "asthma" not in repr([*found.items, *found.messages])
