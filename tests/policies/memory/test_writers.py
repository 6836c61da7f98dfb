"""How evicted messages become memories.

A reply that is of no use leaves the memories as they were, and its event says why. No reply raises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm import Message, Request
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import MemoryEvent, open_memory
from mnemotune.policies.memory.stores import Entry
from mnemotune.policies.memory.writers import MERGE_NEIGHBOURS, PROFILE
from mnemotune.policies.replies import LONGEST_REPLY
from remembering import facts, lines, observe_all, shown, steps

if TYPE_CHECKING:
    from ..conftest import MakeEmbedder, MakeModel, MakePolicy, Pair

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


# A profile, as AMemGym's AWI


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz")), max_size=8))
@settings(deadline=None)
async def test_a_profile_is_shown_by_last_write_and_written_by_first_write(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, replies: list[dict[str, str]]
) -> None:
    """AMemGym keeps labels where they were first put and sorts by the write's time to show them; ties stay in place."""
    model = make_model(*map(json.dumps, replies), NOTHING)
    memory = open_memory(make_policy("profile", update_every=2, buffer_size=0), model, LexicalEmbedder())
    values: dict[str, str] = {}
    written: dict[str, int] = {}
    for time, (reply, messages) in enumerate(zip(replies, rounds(len(replies)), strict=True)):
        await memory.observe(messages)
        assert model.prompts[-1].startswith(json.dumps(values, indent=2) + "|")
        values |= reply
        written |= dict.fromkeys(reply, time)
        listed = "\n".join(f"- {label}: {values[label]}" for label in sorted(values, key=lambda label: written[label]))
        assert (await shown(memory, "Hi"))[0].content == f"I know:\n{listed}"


# Verbatim


async def test_verbatim_keeps_each_message_as_a_memory_and_asks_no_model(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model()
    memory = open_memory(make_policy("verbatim"), model, LexicalEmbedder())
    first, second = pair("I swim {often}.", "Do you?"), pair("Yes.")
    await memory.observe(first)
    (event,) = await memory.observe(second)
    assert event == MemoryEvent(tuple(first), (), ("user: I swim {often}.", "assistant: Do you?"))
    assert model.requests == []


async def test_equal_messages_are_two_memories(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    memory = open_memory(make_policy("verbatim", buffer_size=0), make_model(), LexicalEmbedder())
    await observe_all(memory, [pair("Same.", "Same."), pair("Same.", "Same.")])
    assert await lines(memory) == ["user: Same.", "assistant: Same."] * 2
    assert [entry.id for entry in (await memory.snapshot()).entries] == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", ["verbatim", "facts", "profile"])
async def test_only_the_users_messages_are_written_where_the_policy_says_so(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair, mode: str
) -> None:
    model = make_model(NOTHING if mode == "profile" else facts())
    policy = make_policy(mode, write={"mode": mode, "roles": "user"}, buffer_size=0)
    memory = open_memory(policy, model, LexicalEmbedder())
    (event,) = await memory.observe(pair("I swim.", "Great sport."))
    assert len(event.evicted) == 2
    heard = await lines(memory) if mode == "verbatim" else [model.prompts[0]]
    assert "I swim." in heard[0]
    assert not any("Great sport." in text for text in heard)


async def test_a_write_of_nothing_that_counts_is_an_event_without_a_call(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    model = make_model()
    policy = make_policy("facts", write={"mode": "facts", "roles": "user"}, update_every=1, buffer_size=0)
    memory = open_memory(policy, model, LexicalEmbedder())
    (event,) = await memory.observe([Message("assistant", "Hello.")])
    assert event == MemoryEvent((Message("assistant", "Hello."),), (), ())
    assert model.requests == []


# Profile


async def test_the_profile_prompt_shows_the_profile_and_the_messages_as_indented_json(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model('{"pet": "cat 猫"}', NOTHING)
    memory = open_memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
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
        form=PROFILE,
    )
    assert model.prompts[1].startswith('{\n  "pet": "cat 猫"\n}|[')


async def test_a_profile_is_updated_by_union_and_what_was_written_last_comes_last(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    model = make_model('{"pet": "cat", "home": "flat"}', '{"sport": "golf"}', '{"pet": "dog"}', NOTHING)
    memory = open_memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    events = await observe_all(memory, rounds(4))
    assert [event.after for event in events] == [
        ("pet: cat", "home: flat"),
        ("pet: cat", "home: flat", "sport: golf"),
        ("home: flat", "sport: golf", "pet: dog"),
        ("home: flat", "sport: golf", "pet: dog"),
    ]
    assert [event.before for event in events[1:]] == [event.after for event in events[:-1]]
    assert [(entry.id, entry.label) for entry in (await memory.snapshot()).entries] == [
        (1, "home"),
        (2, "sport"),
        (0, "pet"),
    ]
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
    memory = open_memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    (event,) = await memory.observe(pair("Hello."))
    assert event.after == ("age: 41", 'pets: ["cat", "dög"]', 'home: {"size": "small"}', "x: ")
    assert event.error is None


# Facts


async def test_the_first_facts_are_added_without_a_merge(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model(facts("Has a cat.", "Lives in a flat."))
    memory = open_memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    (event,) = await memory.observe(pair("Hello."))
    assert event.after == ("Has a cat.", "Lives in a flat.")
    assert (len(model.requests), len(event.raw)) == (1, 1)


async def test_no_facts_are_no_merge(make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds) -> None:
    model = make_model(facts("Has a cat."), facts(), facts("", None))
    memory = open_memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
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
    memory = open_memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    _, event = await observe_all(memory, rounds(2))
    assert event.after == ("Is a baker.", "Plays golf.", "Has a dog.")
    assert [entry.id for entry in (await memory.snapshot()).entries] == [2, 3, 0]
    assert event.raw == (facts("Golf", "Dog"), merge)


async def test_the_merge_prompt_shows_the_known_facts_by_id_and_the_new_ones(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    model = make_model(facts("Has a cat.", "Is {b}."), facts("Has a dog.", "{facts}"), steps())
    memory = open_memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    await observe_all(memory, rounds(2))
    assert model.requests[2] == Request(
        (Message("user", '{\n  "0": "Has a cat.",\n  "1": "Is {b}."\n}|[\n  "Has a dog.",\n  "{facts}"\n]'),),
        role="write",
        form=model.requests[2].form,
    )


async def test_a_merge_sees_the_facts_most_like_each_new_one_and_may_name_no_other(
    make_model: MakeModel, make_policy: MakePolicy, make_embedder: MakeEmbedder, rounds: Rounds
) -> None:
    known = [f"fact {i}" for i in range(9)]
    vectors = {text: (float(i), 9.0 - i) for i, text in enumerate(known)} | {"low": (0.0, 1.0), "high": (1.0, 0.0)}
    for new, near in (("low", range(MERGE_NEIGHBOURS)), ("high", range(9 - MERGE_NEIGHBOURS, 9))):
        hidden = next(i for i in range(9) if i not in near)
        model = make_model(facts(*known), facts(new), steps({"event": "DELETE", "id": str(hidden)}))
        memory = open_memory(make_policy("facts", buffer_size=0), model, make_embedder(vectors))
        _, event = await observe_all(memory, rounds(2))
        assert json.loads(model.prompts[2].split("|")[0]) == {str(i): f"fact {i}" for i in near}
        assert event.error == f"the reply names memory '{hidden}', which it was not shown"
        assert event.after == tuple(known)


async def test_ids_are_never_used_twice(make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds) -> None:
    model = make_model(
        facts("a"), facts("b"), steps({"event": "DELETE", "id": "0"}), facts("c"), facts("d"), steps({"event": "NONE"})
    )
    memory = open_memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    await observe_all(memory, rounds(3))
    assert (await memory.snapshot()).entries == (Entry(1, "c"),)
    assert (await memory.snapshot()).next_id == 2


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (NOTHING, 'the reply has no list "memory"'),
        ('{"memory": null}', 'the reply has no list "memory"'),
        ('{"memory": "ADD"}', 'an item of "memory" is not an object'),
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
    memory = open_memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    _, event = await observe_all(memory, rounds(2))
    assert event.after == event.before == ("Has a cat.",)
    assert event.error is not None
    assert said in event.error
    assert event.raw == (facts("Has a dog."), json.dumps(value))


async def test_facts_that_are_no_list_are_an_error(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    for reply in (NOTHING, '{"facts": 1}', '{"facts": null}', '{"user": "Has a cat."}', '{"a": ["b"], "c": ["d"]}'):
        memory = open_memory(make_policy("facts", buffer_size=0), make_model(reply), LexicalEmbedder())
        (event,) = await memory.observe(pair("Hello."))
        assert event.error == 'the reply has no list "facts"'
        assert event.after == ()


@pytest.mark.parametrize(
    "reply",
    [
        '{"facts": "Has a cat."}',
        '{"notes": ["Has a cat."]}',
        '```json\n{"facts": ["Has a cat."]}\n```\nThese are the facts.',
        '{"facts": ["Has a cat.", "Has a d',
        'Sure! {"facts": ["Has a cat.", ',
    ],
)
async def test_facts_in_another_form_or_before_a_reply_breaks_off_are_read(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair, reply: str
) -> None:
    memory = open_memory(make_policy("facts", buffer_size=0), make_model(reply), LexicalEmbedder())
    (event,) = await memory.observe(pair("Hello."))
    assert (event.error, event.after) == (None, ("Has a cat.",))


async def test_a_profile_that_breaks_off_is_read_and_a_merge_is_not(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds
) -> None:
    model = make_model('{"pet": "cat", "home": {"rooms": 2}, "job": "ba')
    memory = open_memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder())
    (event,) = await observe_all(memory, rounds(1))
    assert event.after == ("pet: cat", 'home: {"rooms": 2}')
    broken = '{"memory": [{"event": "ADD", "text": "Has a dog."}, {"event": "DEL'
    model = make_model(facts("Has a cat."), facts("Has a dog."), broken)
    memory = open_memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
    _, event = await observe_all(memory, rounds(2))
    assert (event.error, event.after) == ("the reply holds no JSON object", ("Has a cat.",))


# Replies of any kind


@pytest.mark.parametrize("mode", ["facts", "profile"])
@pytest.mark.parametrize("reply", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_reply_of_no_use_is_told_on_the_event_and_memory_stays_as_it_was(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, mode: str, reply: str
) -> None:
    good = facts("Has a cat.") if mode == "facts" else '{"pet": "cat"}'
    model = make_model(good, reply)
    memory = open_memory(make_policy(mode, buffer_size=2), model, LexicalEmbedder())
    first, second = await observe_all(memory, rounds(3))
    assert first.error is None
    assert second.error
    assert second.before == second.after == first.after
    assert second.raw == (reply,)
    assert len((await memory.snapshot()).buffer) == 2


@pytest.mark.parametrize("reply", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_merge_reply_of_no_use_leaves_memory_as_it_was(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, reply: str
) -> None:
    model = make_model(facts("Has a cat."), facts("Has a dog."), reply)
    memory = open_memory(make_policy("facts", buffer_size=0), model, LexicalEmbedder())
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
    memory = open_memory(make_policy(mode, buffer_size=0), make_model(reply), LexicalEmbedder())
    await memory.observe(pair("Hello."))
    for line in await lines(memory):
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
async def test_whatever_a_model_says_a_write_succeeds_or_changes_nothing(
    make_model: MakeModel, make_policy: MakePolicy, rounds: Rounds, mode: str, replies: list[str]
) -> None:
    first = facts("Has a cat.", "Is a baker.") if mode == "facts" else '{"pet": "cat"}'
    memory = open_memory(make_policy(mode, buffer_size=0), make_model(first, *replies), LexicalEmbedder())
    for event in await observe_all(memory, rounds(4)):
        assert event.error is None or event.after == event.before
    state = await memory.snapshot()
    assert len({entry.id for entry in state.entries}) == len(state.entries)
    assert all(0 <= entry.id < state.next_id for entry in state.entries)
    assert len({entry.label for entry in state.entries}) == len(state.entries) or mode == "facts"
    await shown(memory, "Anything?")
