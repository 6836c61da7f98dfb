"""The memory that is built in, message by message.

Invariants:

1. Nothing is lost between the buffer and the writes: what was evicted, and then the buffer, is what was observed.
2. One ``observe`` sets off one write at most.
3. A fork, and a memory that was restored, go their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies import MemoryState, load_policy, open_memory
from mnemotune.policies.lm import Message
from mnemotune.policies.text import LexicalEmbedder
from remembering import lines, observe_all, shown

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
