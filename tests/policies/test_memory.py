"""Memory under a policy, message by message.

Invariants:

1. Nothing is lost between the buffer and the writes: what was evicted, and then the buffer, is what was observed.
2. One ``observe`` sets off one write at most.
3. A reply that is of no use leaves the memories as they were, and its event says why. No reply raises.
4. A fork, and a memory that was restored, go their own way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies import Memory, MemoryEvent, MemoryState, load_policy
from mnemotune.policies.lm import Message, Request
from mnemotune.policies.memory import MERGE_NEIGHBOURS, Entry
from mnemotune.policies.replies import LONGEST_REPLY
from mnemotune.policies.text import LexicalEmbedder

if TYPE_CHECKING:
    from .conftest import MakeEmbedder, MakeModel, MakePolicy, Pair

Rounds = Callable[[int], Sequence[list[Message]]]

NOTHING = "{}"
HOSTILE = (
    "",
    "   \n ",
    "no JSON here",
    "{",
    '{"a": ',
    "[]",
    '["a"]',
    "null",
    "7",
    '"text"',
    "```json\n[1, 2]\n```",
    "```json\n",
    "{{conversation}}",
    "{0} {a!r:>{width}}",
    "{" * 5000,
    "[" * 50_000,
    '{"a":' * 5000,
    "x" * (LONGEST_REPLY + 1),
    '{"a": "' + "x" * LONGEST_REPLY + '"}',
    '{"a": ' + "1" * 5000 + "}",
    "\x00\ud800",
)
"""Replies that are of no use to any write."""


def facts(*texts: Any) -> str:
    return json.dumps({"facts": list(texts)})


def steps(*given: Any) -> str:
    return json.dumps({"memory": list(given)})


def lines(memory: Memory) -> list[str]:
    return [entry.line for entry in memory.snapshot().entries]


async def observe_all(memory: Memory, rounds: Sequence[list[Message]]) -> list[MemoryEvent]:
    return [event for messages in rounds for event in await memory.observe(messages)]


# A profile, as AMemGym's AWI


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz")), max_size=8))
@settings(deadline=None)
async def test_a_profile_is_shown_by_last_write_and_written_by_first_write(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, replies: list[dict[str, str]]
) -> None:
    """AMemGym keeps labels where they were first put and sorts by the write's time to show them; ties stay in place."""
    model = make_model(*map(json.dumps, replies), NOTHING)
    memory = Memory(make_policy("profile", update_every=2, buffer_size=0), model, LexicalEmbedder())
    values: dict[str, str] = {}
    written: dict[str, int] = {}
    for time, (reply, messages) in enumerate(zip(replies, rounds(len(replies)), strict=True)):
        await memory.observe(messages)
        assert model.prompts[-1].startswith(json.dumps(values, indent=2) + "|")
        values |= reply
        written |= dict.fromkeys(reply, time)
        shown = "\n".join(f"- {label}: {values[label]}" for label in sorted(values, key=lambda label: written[label]))
        assert (await memory.context("Hi"))[0].content == f"I know:\n{shown}"


# Eviction, as AMemGym's add_msgs


async def test_with_two_and_four_the_third_round_writes_first_and_each_round_after_it(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = Memory(make_policy("profile", update_every=2, buffer_size=4), make_model('{"a": "b"}'), LexicalEmbedder())
    counts, windows = [], []
    for messages in rounds(7):
        counts.append(len(await memory.observe(messages)))
        windows.append(len(memory.snapshot().buffer))
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
    memory = Memory(policy, make_model(), LexicalEmbedder())
    seen = []
    for messages in rounds(6):
        events = await memory.observe(messages)
        seen.append((len(events), len(memory.snapshot().buffer)))
        assert all(len(event.evicted) == update_every for event in events)
    assert seen == list(zip(counts, windows, strict=True))


@settings(deadline=None)
@given(
    update_every=st.integers(1, 7),
    buffer_size=st.integers(0, 7),
    sizes=st.lists(st.integers(0, 5), max_size=12),
    mode=st.sampled_from(["none", "verbatim"]),
)
def test_what_was_evicted_and_the_buffer_are_what_was_observed(
    make_model: MakeModel,
    make_policy: MakePolicy,
    update_every: int,
    buffer_size: int,
    sizes: list[int],
    mode: str,
) -> None:
    memory = Memory(
        make_policy(mode, update_every=update_every, buffer_size=buffer_size), make_model(), LexicalEmbedder()
    )
    observed: list[Message] = []
    evicted: list[Message] = []
    for size in sizes:
        new = [Message("user", str(len(observed) + i)) for i in range(size)]
        waiting = len(observed) - len(evicted) + size
        events = asyncio.run(memory.observe(new))
        observed += new
        due = waiting >= update_every + buffer_size
        assert len(events) == (due and mode != "none")
        evicted = observed[: len(evicted) + due * update_every]
        assert memory.snapshot().buffer == tuple(observed[len(evicted) :])
        assert all(event.evicted == tuple(evicted[-update_every:]) for event in events)
    if mode == "verbatim":
        assert lines(memory) == [f"user: {message.content}" for message in evicted]


async def test_native_keeps_every_message_and_writes_nothing(make_model: MakeModel, rounds: Rounds) -> None:
    model = make_model()
    memory = Memory(load_policy("native"), model, LexicalEmbedder())
    assert await observe_all(memory, rounds(30)) == []
    assert await memory.context("What now?") == [message for messages in rounds(30) for message in messages]
    assert model.requests == []


async def test_a_window_alone_forgets_without_an_event(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = Memory(make_policy("none", update_every=2, buffer_size=4), make_model(), LexicalEmbedder())
    assert await observe_all(memory, rounds(5)) == []
    assert await memory.context("What now?") == [message for messages in rounds(5)[3:] for message in messages]


# Verbatim


async def test_verbatim_keeps_each_message_as_a_memory_and_asks_no_model(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model()
    memory = Memory(make_policy("verbatim"), model, LexicalEmbedder())
    first, second = pair("I swim {often}.", "Do you?"), pair("Yes.")
    await memory.observe(first)
    (event,) = await memory.observe(second)
    assert event == MemoryEvent(tuple(first), (), ("user: I swim {often}.", "assistant: Do you?"))
    assert model.requests == []


async def test_equal_messages_are_two_memories(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    memory = Memory(make_policy("verbatim", buffer_size=0), make_model(), LexicalEmbedder())
    await observe_all(memory, [pair("Same.", "Same."), pair("Same.", "Same.")])
    assert lines(memory) == ["user: Same.", "assistant: Same."] * 2
    assert [entry.id for entry in memory.snapshot().entries] == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", ["verbatim", "facts", "profile"])
async def test_only_the_users_messages_are_written_where_the_policy_says_so(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair, mode: str
) -> None:
    model = make_model(NOTHING if mode == "profile" else facts())
    policy = make_policy(mode, write={"mode": mode, "roles": "user"}, buffer_size=0)
    memory = Memory(policy, model, LexicalEmbedder())
    (event,) = await memory.observe(pair("I swim.", "Great sport."))
    assert len(event.evicted) == 2
    heard = lines(memory) if mode == "verbatim" else [model.prompts[0]]
    assert "I swim." in heard[0]
    assert not any("Great sport." in text for text in heard)


async def test_a_write_of_nothing_that_counts_is_an_event_without_a_call(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    model = make_model()
    policy = make_policy("facts", write={"mode": "facts", "roles": "user"}, update_every=1, buffer_size=0)
    memory = Memory(policy, model, LexicalEmbedder())
    (event,) = await memory.observe([Message("assistant", "Hello.")])
    assert event == MemoryEvent((Message("assistant", "Hello."),), (), ())
    assert model.requests == []


# Profile


async def test_the_profile_prompt_shows_the_profile_and_the_messages_as_indented_json(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model('{"pet": "cat 猫"}', NOTHING)
    memory = Memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    await observe_all(memory, [pair('I say "{memories}".', "a\nb"), pair("More.")])
    assert model.requests[0] == Request(
        (
            Message(
                "user",
                "{}|[\n"
                '  {\n    "role": "user",\n    "content": "I say \\"{memories}\\"."\n  },\n'
                '  {\n    "role": "assistant",\n    "content": "a\\nb"\n  }\n]',
            ),
        ),
        role="write",
        json_mode=True,
    )
    assert model.prompts[1].startswith('{\n  "pet": "cat 猫"\n}|[')


async def test_a_profile_is_updated_by_union_and_what_was_written_last_comes_last(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    model = make_model('{"pet": "cat", "home": "flat"}', '{"sport": "golf"}', '{"pet": "dog"}', NOTHING)
    memory = Memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    events = await observe_all(memory, rounds(4))
    assert [event.after for event in events] == [
        ("pet: cat", "home: flat"),
        ("pet: cat", "home: flat", "sport: golf"),
        ("home: flat", "sport: golf", "pet: dog"),
        ("home: flat", "sport: golf", "pet: dog"),
    ]
    assert [event.before for event in events[1:]] == [event.after for event in events[:-1]]
    assert [(entry.id, entry.label) for entry in memory.snapshot().entries] == [(1, "home"), (2, "sport"), (0, "pet")]
    assert all(event.error is None for event in events)
    assert [event.raw for event in events] == [
        ('{"pet": "cat", "home": "flat"}',),
        ('{"sport": "golf"}',),
        ('{"pet": "dog"}',),
        ("{}",),
    ]


async def test_values_of_a_profile_that_are_no_text_are_kept_as_json_and_null_is_nothing(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model(json.dumps({"age": 41, "pets": ["cat", "dög"], "home": {"size": "small"}, "job": None, "x": ""}))
    memory = Memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    (event,) = await memory.observe(pair("Hello."))
    assert event.after == ("age: 41", 'pets: ["cat", "dög"]', 'home: {"size": "small"}', "x: ")
    assert event.error is None


# Facts


async def test_the_first_facts_are_added_without_a_merge(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model(facts("Has a cat.", "Lives in a flat."))
    memory = Memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    (event,) = await memory.observe(pair("Hello."))
    assert event.after == ("Has a cat.", "Lives in a flat.")
    assert (len(model.requests), len(event.raw)) == (1, 1)


async def test_no_facts_are_no_merge(make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds) -> None:
    model = make_model(facts("Has a cat."), facts(), facts("", None))
    memory = Memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    events = await observe_all(memory, rounds(3))
    assert len(model.requests) == 3
    assert [event.after for event in events] == [("Has a cat.",)] * 3
    assert [event.error for event in events] == [None] * 3


async def test_a_merge_adds_updates_deletes_and_leaves_alone(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    merge = steps(
        {"event": "ADD", "text": "Plays golf."},
        {"event": "update", "id": 0, "text": "Has a dog."},
        {"event": "DELETE", "id": "1"},
        {"event": "NONE", "id": "2"},
    )
    model = make_model(facts("Has a cat.", "Lives in a flat.", "Is a baker."), facts("Golf", "Dog"), merge)
    memory = Memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    _, event = await observe_all(memory, rounds(2))
    assert event.after == ("Is a baker.", "Plays golf.", "Has a dog.")
    assert [entry.id for entry in memory.snapshot().entries] == [2, 3, 0]
    assert event.raw == (facts("Golf", "Dog"), merge)


async def test_the_merge_prompt_shows_the_known_facts_by_id_and_the_new_ones(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    model = make_model(facts("Has a cat.", "Is {b}."), facts("Has a dog.", "{facts}"), steps())
    memory = Memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    await observe_all(memory, rounds(2))
    assert model.requests[2] == Request(
        (Message("user", '{\n  "0": "Has a cat.",\n  "1": "Is {b}."\n}|[\n  "Has a dog.",\n  "{facts}"\n]'),),
        role="write",
        json_mode=True,
    )


async def test_a_merge_sees_the_facts_most_like_each_new_one_and_may_name_no_other(
    make_model: MakeModel, make_policy: MakePolicy, make_embedder: MakeEmbedder, rounds: Rounds
) -> None:
    known = [f"fact {i}" for i in range(9)]
    vectors = {text: (float(i), 9.0 - i) for i, text in enumerate(known)} | {"low": (0.0, 1.0), "high": (1.0, 0.0)}
    for new, shown in (("low", range(MERGE_NEIGHBOURS)), ("high", range(9 - MERGE_NEIGHBOURS, 9))):
        hidden = next(i for i in range(9) if i not in shown)
        model = make_model(facts(*known), facts(new), steps({"event": "DELETE", "id": str(hidden)}))
        memory = Memory(make_policy("facts", buffer_size=0), model, make_embedder(vectors))
        _, event = await observe_all(memory, rounds(2))
        assert json.loads(model.prompts[2].split("|")[0]) == {str(i): f"fact {i}" for i in shown}
        assert event.error == f"the reply names memory '{hidden}', which it was not shown"
        assert event.after == tuple(known)


async def test_ids_are_never_used_twice(make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds) -> None:
    model = make_model(
        facts("a"), facts("b"), steps({"event": "DELETE", "id": "0"}), facts("c"), facts("d"), steps({"event": "NONE"})
    )
    memory = Memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    await observe_all(memory, rounds(3))
    assert memory.snapshot().entries == (Entry(1, "c"),)
    assert memory.snapshot().next_id == 2


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (NOTHING, 'the reply has no list "memory"'),
        ('{"memory": {"event": "ADD", "text": "x"}}', 'the reply has no list "memory"'),
        (steps("ADD"), 'an item of "memory" is not an object'),
        (steps({"event": "ADD"}), "an item of \"memory\" has event 'ADD' without what it needs"),
        (steps({"text": "x"}), "an item of \"memory\" has event '' without what it needs"),
        (steps({"event": "MERGE", "id": "0", "text": "x"}), "an item of \"memory\" has event 'MERGE'"),
        (steps({"event": "UPDATE", "text": "x"}), "the reply names memory None, which it was not shown"),
        (steps({"event": "UPDATE", "id": "0"}), "an item of \"memory\" has event 'UPDATE' without what it needs"),
        (steps({"event": "DELETE", "id": "9"}), "the reply names memory '9', which it was not shown"),
        (steps({"event": "DELETE", "id": -1}), "the reply names memory -1, which it was not shown"),
        (steps({"event": "DELETE", "id": 0.0}), "the reply names memory 0.0, which it was not shown"),
        (steps({"event": "DELETE", "id": True}), "the reply names memory True, which it was not shown"),
        (steps({"event": "DELETE", "id": "²"}), "the reply names memory '²', which it was not shown"),
        (steps({"event": "DELETE", "id": "9" * 5000}), "which it was not shown"),
        (steps({"event": "DELETE", "id": ["0"]}), "the reply names memory ['0'], which it was not shown"),
        (steps({"event": ["ADD"], "text": "x"}), "without what it needs"),
    ],
)
async def test_a_merge_that_makes_no_sense_changes_nothing_not_even_by_half(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, reply: str, said: str
) -> None:
    value = json.loads(reply)
    if isinstance(value.get("memory"), list):
        value["memory"].insert(0, {"event": "ADD", "text": "half"})
    model = make_model(facts("Has a cat."), facts("Has a dog."), json.dumps(value))
    memory = Memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    _, event = await observe_all(memory, rounds(2))
    assert event.after == event.before == ("Has a cat.",)
    assert event.error is not None
    assert said in event.error
    assert event.raw == (facts("Has a dog."), json.dumps(value))


async def test_facts_that_are_no_list_are_an_error(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    for reply in (NOTHING, '{"facts": "Has a cat."}', '{"facts": {"a": "b"}}', '{"facts": null}'):
        memory = Memory(make_policy("facts", buffer_size=0), make_model(reply), LexicalEmbedder())
        (event,) = await memory.observe(pair("Hello."))
        assert event.error == 'the reply has no list "facts"'
        assert event.after == ()


# Replies of any kind


@pytest.mark.parametrize("mode", ["facts", "profile"])
@pytest.mark.parametrize("reply", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_reply_of_no_use_is_told_on_the_event_and_memory_stays_as_it_was(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, mode: str, reply: str
) -> None:
    good = facts("Has a cat.") if mode == "facts" else '{"pet": "cat"}'
    model = make_model(good, reply)
    memory = Memory(make_policy(mode, buffer_size=2), model, LexicalEmbedder())
    first, second = await observe_all(memory, rounds(3))
    assert first.error is None
    assert second.error
    assert second.before == second.after == first.after
    assert second.raw == (reply,)
    assert len(memory.snapshot().buffer) == 2


@pytest.mark.parametrize("reply", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_merge_reply_of_no_use_leaves_memory_as_it_was(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, reply: str
) -> None:
    model = make_model(facts("Has a cat."), facts("Has a dog."), reply)
    memory = Memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    _, event = await observe_all(memory, rounds(2))
    assert event.error
    assert event.after == ("Has a cat.",)
    assert event.raw == (facts("Has a dog."), reply)


@pytest.mark.parametrize("mode", ["facts", "profile"])
async def test_half_a_character_in_a_reply_never_reaches_memory(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair, mode: str
) -> None:
    """What memory holds is sent and saved as UTF-8, which has no code for half a character."""
    reply = facts("cat \ud83d") if mode == "facts" else '{"pet \\ud83d": "cat \\ud83d"}'
    memory = Memory(make_policy(mode, buffer_size=0), make_model(reply), LexicalEmbedder())
    await memory.observe(pair("Hello."))
    for line in lines(memory):
        assert line.encode().decode() == line


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.sampled_from(["0", "ADD"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["facts", "memory", "event", "id", "text", "a", ""]), inner, max_size=4),
    ),
    max_leaves=12,
)
STEP = st.fixed_dictionaries(
    {"event": st.sampled_from(["ADD", "UPDATE", "DELETE", "NONE", "?"])},
    optional={"id": st.sampled_from([0, "0", 1, "1", "7", None]), "text": st.sampled_from(["x", "", None, 3, ["y"]])},
)
REPLIES = st.one_of(
    st.text(st.characters()),
    JSON.map(json.dumps),
    st.lists(JSON, max_size=3).map(lambda items: json.dumps({"facts": items})),
    st.lists(STEP, max_size=4).map(lambda items: json.dumps({"memory": items})),
)


@settings(deadline=None)
@given(mode=st.sampled_from(["facts", "profile"]), replies=st.lists(REPLIES, min_size=1, max_size=6))
def test_whatever_a_model_says_a_write_succeeds_or_changes_nothing(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, mode: str, replies: list[str]
) -> None:
    first = facts("Has a cat.", "Is a baker.") if mode == "facts" else '{"pet": "cat"}'
    memory = Memory(make_policy(mode, buffer_size=0), make_model(first, *replies), LexicalEmbedder())
    for event in asyncio.run(observe_all(memory, rounds(4))):
        assert event.error is None or event.after == event.before
    state = memory.snapshot()
    assert len({entry.id for entry in state.entries}) == len(state.entries)
    assert all(0 <= entry.id < state.next_id for entry in state.entries)
    assert len({entry.label for entry in state.entries}) == len(state.entries) or mode == "facts"
    asyncio.run(memory.context("Anything?"))


# Reading


async def test_with_store_context_all_memories_come_back_oldest_first_before_the_buffer(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = Memory(make_policy("verbatim"), make_model(), LexicalEmbedder())
    await observe_all(memory, rounds(3))
    assert await memory.context("Anything?") == [
        Message(
            "system",
            "I know:\n- user: I say 0.\n- assistant: You said 0.\n- user: I say 1.\n- assistant: You said 1.",
        ),
        Message("user", "I say 2."),
        Message("assistant", "You said 2."),
    ]


async def test_a_memory_without_memories_says_so_by_an_empty_list(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    for store in ({"store": "context"}, {"store": "external", "top_k": 3}):
        memory = Memory(make_policy("verbatim", **store), make_model(), LexicalEmbedder())
        assert await memory.context("Anything?") == [Message("system", "I know:\n")]


async def test_braces_in_a_memory_are_not_read_as_slots(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    memory = Memory(make_policy("verbatim", buffer_size=0), make_model(), LexicalEmbedder())
    await memory.observe(pair("{memories} {0} {x!r}", "}{"))
    (system,) = await memory.context("{memories}")
    assert system.content == "I know:\n- user: {memories} {0} {x!r}\n- assistant: }{"


VECTORS = {
    "user: old": (0.9, 0.1),
    "assistant: far": (0.0, 1.0),
    "user: new": (1.0, 0.0),
    "assistant: same": (0.9, 0.1),
    "q": (1.0, 0.0),
}


@pytest.mark.parametrize(
    ("top_k", "order", "expected"),
    [
        (1, "time", ["user: new"]),
        (2, "time", ["user: new", "assistant: same"]),
        (2, "relevance", ["user: new", "assistant: same"]),
        (3, "time", ["user: old", "user: new", "assistant: same"]),
        (3, "relevance", ["user: new", "assistant: same", "user: old"]),
        (9, "time", ["user: old", "assistant: far", "user: new", "assistant: same"]),
        (9, "relevance", ["user: new", "assistant: same", "user: old", "assistant: far"]),
    ],
)
async def test_the_most_similar_memories_come_back_in_the_order_that_the_policy_says(
    make_model: MakeModel,
    make_policy: MakePolicy,
    make_embedder: MakeEmbedder,
    pair: Pair,
    top_k: int,
    order: str,
    expected: list[str],
) -> None:
    policy = make_policy("verbatim", buffer_size=0, store="external", top_k=top_k, read={"order": order})
    memory = Memory(policy, make_model(), make_embedder(VECTORS))
    await observe_all(memory, [pair("old", "far"), pair("new", "same")])
    (system,) = await memory.context("q")
    assert system.content.splitlines()[1:] == [f"- {line}" for line in expected]


async def test_a_fact_that_was_updated_is_the_newest(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    model = make_model(facts("a", "b"), facts("c"), steps({"event": "UPDATE", "id": 0, "text": "a2"}))
    memory = Memory(make_policy("facts", buffer_size=0, store="external", top_k=9), model, LexicalEmbedder())
    await observe_all(memory, rounds(2))
    (system,) = await memory.context("Anything?")
    assert system.content == "I know:\n- b\n- a2"


async def test_a_budget_keeps_the_newest_of_all_memories(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    """16 tokens are 64 characters; "user: I say 0." is 14 of them and "assistant: You said 0." 22."""
    memory = Memory(make_policy("verbatim", buffer_size=0, read={"budget_tokens": 16}), make_model(), LexicalEmbedder())
    await observe_all(memory, rounds(3))
    (system,) = await memory.context("Anything?")
    assert system.content.splitlines()[1:] == [
        "- assistant: You said 1.",
        "- user: I say 2.",
        "- assistant: You said 2.",
    ]


async def test_a_budget_keeps_the_most_relevant_of_an_index(
    make_model: MakeModel, make_policy: MakePolicy, make_embedder: MakeEmbedder, pair: Pair
) -> None:
    texts = {letter: f"user: {letter * 26}" for letter in "abc"}
    vectors = {texts["a"]: (1.0, 0.0), texts["b"]: (0.5, 0.5), texts["c"]: (0.0, 1.0), "q": (1.0, 0.0)}
    policy = make_policy(
        "verbatim",
        write={"mode": "verbatim", "roles": "user"},
        buffer_size=0,
        store="external",
        top_k=3,
        read={"budget_tokens": 16},
    )
    memory = Memory(policy, make_model(), make_embedder(vectors))
    await observe_all(memory, [pair(letter * 26) for letter in "abc"])
    (system,) = await memory.context("q")
    assert system.content.splitlines()[1:] == [f"- {texts['a']}", f"- {texts['b']}"]


async def test_a_memory_that_is_larger_than_the_budget_does_not_come_back(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    policy = make_policy(
        "verbatim",
        write={"mode": "verbatim", "roles": "user"},
        buffer_size=0,
        read={"budget_tokens": 16},
    )
    for size, kept in ((58, 1), (59, 0)):
        memory = Memory(policy, make_model(), LexicalEmbedder())
        await memory.observe(pair("x" * size))
        (system,) = await memory.context("Anything?")
        assert system.content.count("x") == kept * size


async def test_asking_for_context_changes_nothing(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    memory = Memory(make_policy("verbatim", store="external", top_k=2), make_model(), LexicalEmbedder())
    await observe_all(memory, rounds(4))
    before = memory.snapshot()
    first = await memory.context("What did I say 1?")
    assert memory.snapshot() == before
    assert await memory.context("What did I say 1?") == first


# Snapshots and forks


async def test_a_memory_starts_empty(make_model: MakeModel, make_policy: MakePolicy) -> None:
    assert Memory(make_policy("facts"), make_model(), LexicalEmbedder()).snapshot() == MemoryState()


async def test_a_snapshot_can_be_restored_also_into_another_memory(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    policy = make_policy("verbatim", store="external", top_k=3)
    memory = Memory(policy, make_model(), LexicalEmbedder())
    await observe_all(memory, rounds(3))
    state, context = memory.snapshot(), await memory.context("What did I say?")
    await observe_all(memory, rounds(2))
    assert memory.snapshot() != state
    other = Memory(policy, make_model(), LexicalEmbedder())
    for restored in (memory, other):
        restored.restore(state)
        assert restored.snapshot() == state
        assert await restored.context("What did I say?") == context
    (event,) = await other.observe(rounds(1)[0])
    assert event.before == tuple(entry.line for entry in state.entries)


async def test_forks_go_their_own_ways(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    policy = make_policy("verbatim", buffer_size=0, store="external", top_k=9)
    memory = Memory(policy, make_model(), LexicalEmbedder())
    await memory.observe(pair("trunk", "t"))
    fork = memory.fork()
    assert fork.policy == policy
    await memory.observe(pair("left", "l"))
    await fork.observe(pair("right", "r"))
    assert lines(memory) == ["user: trunk", "assistant: t", "user: left", "assistant: l"]
    assert lines(fork) == ["user: trunk", "assistant: t", "user: right", "assistant: r"]
    (left,), (right,) = await memory.context("left"), await fork.context("right")
    assert "right" not in left.content
    assert "left" not in right.content
