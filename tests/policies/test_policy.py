"""A memory policy is a point in one space.

Invariants:

1. Equal policies have equal keys, however they were written down; different ones have different keys.
2. A policy that was written to a file and read back is the same policy.
3. A policy that cannot work, or says something without effect, is refused when it is made, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mnemotune.policies import MemoryPolicy, PolicyError, dump_policy, load_policy
from mnemotune.policies.files import parse_policy
from mnemotune.policies.policy import Prompts, Write, default_prompts
from mnemotune.policies.prompts import Templates

SLOTS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("facts", "write"): ("conversation",),
    ("profile", "write"): ("memories", "conversation"),
    ("facts", "merge"): ("memories", "facts"),
    ("summary", "write"): ("memories", "conversation"),
    **{(mode, "reply"): ("memories",) for mode in ("verbatim", "facts", "profile", "summary")},
}
"""The slots that each prompt of each mode needs."""


@st.composite
def prompt_texts(draw: st.DrawFn, slots: tuple[str, ...]) -> str:
    """Make texts with the slots somewhere in them, among braces and anything else."""
    pieces = draw(st.lists(st.one_of(st.text(max_size=12), st.sampled_from(["{", "}", "{}", "{x}", "\n", " \n"]))))
    places = [f"{{{slot}}}" for slot in slots]
    return "".join(draw(st.permutations([*pieces, *places])))


@st.composite
def points(draw: st.DrawFn) -> dict[str, Any]:
    """Make any valid point of the space, as it would stand in a file."""
    mode = draw(st.sampled_from(["none", "verbatim", "facts", "profile", "summary"]))
    point: dict[str, Any] = {"write": {"mode": mode}}
    point |= draw(st.fixed_dictionaries({}, optional={"keep_first": st.integers(0, 9), "mask": st.integers(0, 9)}))
    number = st.integers(1, 60)
    if mode == "none":
        if draw(st.booleans()):
            point |= {"update_every": draw(number), "buffer_size": draw(st.integers(0, 60))}
    else:
        point |= {"update_every": draw(number), "buffer_size": draw(st.integers(0, 60))}
        point["write"]["roles"] = draw(st.sampled_from(["user", "both"]))
        if mode == "summary":
            point["write"]["tokens"] = draw(st.sampled_from([16, 300, 301]))
        else:
            point["store"] = draw(st.sampled_from(["context", "external"]))
        if point.get("store") == "external":
            point["top_k"] = draw(number)
            point["read"] = {"order": draw(st.sampled_from(["time", "relevance"]))}
    point["prompts"] = {
        slot: draw(prompt_texts(slots)) for (of, slot), slots in SLOTS.items() if of == mode and draw(st.booleans())
    }
    return point


def shuffled(value: Any) -> Any:
    """Return an equal mapping with its names the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(inner) for key, inner in reversed(value.items())}
    return value


def refusal(**changes: Any) -> str:
    """Return why RAG with these changes is refused."""
    point = {"write": {"mode": "verbatim"}, "update_every": 2, "buffer_size": 4, "store": "external", "top_k": 30}
    return problem(yaml.safe_dump({name: value for name, value in (point | changes).items() if value != "left out"}))


def problem(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, where="mine.yaml")
    return str(caught.value)


# Presets


def test_a_policy_has_just_the_prompts_that_it_uses_and_the_bundled_texts_where_it_gives_none() -> None:
    texts = Templates.bundled()
    assert load_policy("native").prompts == Prompts()
    assert load_policy("rag").prompts == Prompts(reply=texts.reply_external)
    assert load_policy("awi").prompts == Prompts(write=texts.starting("write_profile"), reply=texts.reply_context)
    assert load_policy("awe").prompts == Prompts(write=texts.write_facts, merge=texts.merge, reply=texts.reply_external)


def test_a_prompt_of_ones_own_stays_and_the_others_are_filled_in() -> None:
    policy = MemoryPolicy.model_validate(
        {
            "write": {"mode": "profile"},
            "update_every": 1,
            "buffer_size": 0,
            "store": "context",
            "prompts": {"write": "Note {memories} and {conversation}.", "reply": None},
        }
    )
    assert policy.prompts.write == "Note {memories} and {conversation}."
    assert policy.prompts.reply == Templates.bundled().reply_context
    assert policy.prompts.merge is None


# Keys


@settings(deadline=None)
@given(point=points())
def test_the_key_does_not_depend_on_the_order_of_names(point: dict[str, Any]) -> None:
    policy, other = MemoryPolicy.model_validate(point), MemoryPolicy.model_validate(shuffled(point))
    assert other == policy
    assert other.key == policy.key
    assert len(policy.key) == 12
    assert set(policy.key) <= set("0123456789abcdef")


@settings(deadline=None)
@given(first=points(), second=points())
def test_two_policies_have_one_key_just_when_they_are_equal(first: dict[str, Any], second: dict[str, Any]) -> None:
    one, two = MemoryPolicy.model_validate(first), MemoryPolicy.model_validate(second)
    assert (one.key == two.key) == (one == two)


def test_writing_a_default_out_does_not_change_the_key() -> None:
    spelled = {
        "write": {"mode": "verbatim", "roles": "both"},
        "update_every": 2,
        "buffer_size": 4,
        "store": "external",
        "top_k": 30,
        "read": {"order": "time"},
        "prompts": default_prompts("verbatim", "external") | {"write": None},
    }
    assert MemoryPolicy.model_validate(spelled).key == load_policy("rag").key


def test_each_field_changes_the_key() -> None:
    point: dict[str, Any] = {
        "write": {"mode": "facts"},
        "update_every": 2,
        "buffer_size": 4,
        "store": "external",
        "top_k": 9,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"write": {"mode": "facts", "roles": "user"}},
        {"write": {"mode": "verbatim"}},
        {"update_every": 3},
        {"buffer_size": 5},
        {"store": "context", "top_k": None},
        {"top_k": 10},
        {"read": {"order": "relevance"}},
        {"prompts": {"write": "{conversation}"}},
        {"prompts": {"merge": "{memories}{facts}"}},
        {"prompts": {"reply": "{memories}"}},
        {"keep_first": 1},
        {"mask": 4},
        {"write": {"mode": "summary"}, "store": None, "top_k": None},
        {"write": {"mode": "summary", "tokens": 200}, "store": None, "top_k": None},
        {"write": {"mode": "profile"}},
        {"write": {"mode": "profile", "labels": ["wishes"]}},
        {"write": {"mode": "profile", "labels": ["wishes", "plans"]}},
    ]
    keys = [MemoryPolicy.model_validate(point | change).key for change in changes]
    assert len(set(keys)) == len(changes)


def test_a_key_stays_the_same_from_process_to_process_and_from_release_to_release() -> None:
    """A study finds its policies again by their keys."""
    policy = MemoryPolicy(
        write=Write(mode="verbatim"),
        update_every=2,
        buffer_size=4,
        store="context",
        prompts=Prompts(reply="ä {memories}"),
    )
    assert policy.key == "737ad80aa5ab"


def test_the_label_says_the_numbers() -> None:
    policy = MemoryPolicy(write=Write(mode="none"), update_every=3, buffer_size=7)
    assert policy.label == "none(3,7)"
    assert load_policy("awi").label == "profile+context(2,4)"


def test_a_policy_cannot_be_changed() -> None:
    policy = load_policy("rag")
    for part, field in ((policy, "top_k"), (policy.write, "mode"), (policy.read, "order"), (policy.prompts, "reply")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, field, None)


# Files


@settings(deadline=None)
@given(point=points())
def test_a_policy_that_was_written_down_reads_back_to_the_same_policy(point: dict[str, Any]) -> None:
    policy = MemoryPolicy.model_validate(point)
    again = parse_policy(dump_policy(policy), where="here")
    assert again == policy
    assert again.key == policy.key


@settings(deadline=None)
@given(point=points())
def test_a_policy_that_went_through_json_is_the_same_policy(point: dict[str, Any]) -> None:
    policy = MemoryPolicy.model_validate(point)
    assert parse_policy(policy.model_dump_json(), where="here") == policy
    assert MemoryPolicy.model_validate_json(policy.model_dump_json()) == policy


# Fields


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "mine.yaml: write: Field required"),
        ("write: {}", "mine.yaml: write.mode: Field required"),
        ("write: none", "mine.yaml: write: "),
        ("write: {mode: sometimes}", "mine.yaml: write.mode: Input should be 'none', 'verbatim', 'facts', "),
        ("write: {mode: none, how: well}", "mine.yaml: write.how: no such field"),
        ("{write: {mode: none}, colour: red}", "mine.yaml: colour: no such field"),
        ("{write: {mode: none}, prompts: {greeting: hi}}", "mine.yaml: prompts.greeting: no such"),
        ("{write: {mode: none}, prompts: [a]}", "mine.yaml: prompts: "),
        ("{write: {mode: none}, prompts: {reply: 7}}", "mine.yaml: prompts.reply: "),
        ("{write: {mode: profile}, update_every: 2, buffer_size: 4, evolution: {targets: 1}}", "evolution.targets: "),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(text: str, said: str) -> None:
    assert said in problem(text)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"update_every": 0}, "update_every: Input should be greater than or equal to 1"),
        ({"update_every": 1.5}, "update_every: "),
        ({"buffer_size": -1}, "buffer_size: Input should be greater than or equal to 0"),
        ({"top_k": 0}, "top_k: Input should be greater than or equal to 1"),
        ({"store": "cloud"}, "store: Input should be 'context' or 'external'"),
        ({"read": {"order": "random"}}, "read.order: Input should be 'time' or 'relevance'"),
        ({"write": {"mode": "verbatim", "roles": "assistant"}}, "write.roles: Input should be 'user' or 'both'"),
    ],
)
def test_a_number_out_of_bounds_is_named(changes: dict[str, Any], said: str) -> None:
    assert refusal(**changes).startswith(f"mine.yaml: {said}")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"buffer_size": "left out"}, "buffer_size: needed when something is written"),
        ({"store": "left out", "top_k": "left out"}, "store: needed when something is written, a summary apart"),
        ({"update_every": "left out"}, "update_every: needed when messages are evicted from the buffer"),
        ({"top_k": "left out"}, "top_k: needed with store: external"),
    ],
)
def test_a_field_that_is_needed_is_asked_for(changes: dict[str, Any], said: str) -> None:
    assert refusal(**changes) == f"mine.yaml: {said}"


def test_a_buffer_without_a_rhythm_is_refused() -> None:
    assert problem("{write: {mode: none}, buffer_size: 4}") == (
        "mine.yaml: update_every: needed when messages are evicted from the buffer"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{write: {mode: none}, store: context}", "store: has no effect with write.mode: none; leave it out"),
        ("{write: {mode: none}, top_k: 3}", "top_k: has no effect with write.mode: none; leave it out"),
        ("{write: {mode: none, roles: user}}", "write.roles: has no effect with write.mode: none; leave it out"),
        ("{write: {mode: none}, update_every: 2}", "update_every: has no effect when all messages are kept; leave it"),
        (
            "{write: {mode: none}, prompts: {reply: '{memories}'}}",
            "prompts.reply: has no effect with write.mode: none; leave it out",
        ),
        (
            "{write: {mode: profile}, update_every: 2, buffer_size: 4, store: context, top_k: 3}",
            "top_k: has no effect with store: context; leave it out",
        ),
        (
            "{write: {mode: profile}, update_every: 2, buffer_size: 4, store: context, read: {order: relevance}}",
            "read.order: has no effect with store: context; leave it out",
        ),
        (
            "{write: {mode: profile}, update_every: 2, buffer_size: 4, store: context, "
            "prompts: {merge: '{memories}{facts}'}}",
            "prompts.merge: has no effect with write.mode: profile; leave it out",
        ),
        (
            "{write: {mode: verbatim}, update_every: 2, buffer_size: 4, store: context, "
            "prompts: {write: '{memories}{conversation}'}}",
            "prompts.write: has no effect with write.mode: verbatim; leave it out",
        ),
    ],
)
def test_a_field_without_effect_is_refused(text: str, said: str) -> None:
    assert problem(text).startswith(f"mine.yaml: {said}")


def test_several_reasons_are_all_said() -> None:
    said = problem("{write: {mode: facts}, prompts: {reply: hello}}")
    for reason in ("buffer_size: needed", "store: needed", "update_every: needed", "prompts.reply: lacks {memories}"):
        assert reason in said


# Slots


@pytest.mark.parametrize(("mode", "slot", "name"), [(*key, name) for key, names in SLOTS.items() for name in names])
def test_a_prompt_without_one_of_its_slots_is_refused(mode: str, slot: str, name: str) -> None:
    rest = "".join(f"{{{other}}}" for other in SLOTS[mode, slot] if other != name)
    numbers = {} if mode == "none" else {"update_every": 2, "buffer_size": 4}
    numbers |= {"store": "context"} if mode != "summary" else {}
    text = yaml.safe_dump({"write": {"mode": mode}, **numbers, "prompts": {slot: f"Please. {rest} {{ {name} }}"}})
    assert problem(text) == f"mine.yaml: prompts.{slot}: lacks {{{name}}}"


def test_braces_in_a_prompt_are_nobodys_business() -> None:
    text = 'Say {"a": {0}} and {{nothing}} {else!r:>{width}} about {memories} {} }{'
    policy = MemoryPolicy.model_validate(
        {
            "write": {"mode": "verbatim"},
            "update_every": 2,
            "buffer_size": 4,
            "store": "context",
            "prompts": {"reply": text},
        }
    )
    assert policy.prompts.reply == text


# Policies that rewrite their own prompts

PROFILE = {"write": {"mode": "profile"}, "update_every": 2, "buffer_size": 4, "store": "context"}


def evolving(**told: Any) -> MemoryPolicy:
    return MemoryPolicy.model_validate({**PROFILE, **told})


def test_only_a_policy_that_rewrites_its_types_of_information_keeps_them_apart() -> None:
    texts = Templates.bundled()
    apart, inside = evolving(evolution={}).prompts, evolving().prompts
    assert (apart.write, apart.info_types) == (texts.write_profile, texts.info_types)
    assert (inside.write, inside.info_types) == (texts.starting("write_profile"), None)
    assert evolving(prompts={"info_types": "- Pets"}).prompts.info_types is None
    assert "- Pets" in (evolving(prompts={"info_types": "- Pets"}).prompts.write or "")


def test_an_evolution_is_part_of_the_key_and_reads_back_equal() -> None:
    policies = [evolving(), evolving(evolution={}), evolving(evolution={"ground_truth": True})]
    assert len({policy.key for policy in policies}) == 3
    for policy in policies:
        assert parse_policy(dump_policy(policy), where="mine") == policy


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"evolution": {"targets": []}}, "evolution.targets"),
        ({"evolution": {"targets": ["reply"]}}, "evolution.targets"),
        ({"evolution": {"targets": ["merge"]}}, "the policy has no prompt 'merge'"),
        ({"evolution": {"targets": ["write", "write"]}}, "name each prompt once"),
        ({"evolution": {"targets": ["info_types", "write"]}}, "name each prompt once"),
        ({"evolution": {"targets": ["write"], "guided": True}}, "evolution.guided: has no effect"),
        ({"evolution": {"feedback": "none"}}, "evolution.feedback"),
        (
            {"prompts": {"write": "{memories} {conversation}", "info_types": "- Pets"}},
            "prompts.info_types: has no effect",
        ),
        ({"prompts": {"write": "{memories} {conversation}"}, "initial": "minimal"}, "initial: has no effect beside"),
        ({"initial": "grand"}, "can start from default, minimal, not from 'grand'"),
        ({"evolution": {}, "prompts": {"write": "{memories} {conversation}"}}, "no prompt 'info_types'"),
    ],
)
def test_an_evolution_that_makes_no_sense_is_refused(told: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(said)):
        parse_policy(yaml.safe_dump({**PROFILE, **told}), where="mine")


@pytest.mark.parametrize("mode", ["none", "verbatim"])
def test_what_writes_without_a_prompt_has_nothing_to_rewrite(mode: str) -> None:
    rest = {} if mode == "none" else {"update_every": 2, "buffer_size": 0, "store": "context"}
    with pytest.raises(PolicyError, match="the policy has no prompt 'info_types'"):
        parse_policy(yaml.safe_dump({"write": {"mode": mode}, **rest, "evolution": {}}), where="mine")


@pytest.mark.parametrize("more", [{"initial": "minimal"}, {"evolution": {}}])
def test_labels_go_with_no_text_that_has_no_place_for_them(more: dict[str, Any]) -> None:
    given = {"write": {"mode": "profile", "labels": ["names"]}, "update_every": 2, "buffer_size": 0, "store": "context"}
    assert MemoryPolicy.model_validate(given).prompts.write
    with pytest.raises(ValueError, match=r"write\.labels: no bundled text has both"):
        MemoryPolicy.model_validate(given | more)
