from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data import Scenario
from mnemotune.data.dialogue.scenario import Question
from mnemotune.env import Protocol
from mnemotune.env.dialogue.compat import DEFECTS
from mnemotune.env.dialogue.protocol import (
    answer_prompt,
    probe_prompt,
    read_answer,
    read_probe,
    upper_bound_calls,
    upper_bound_prompt,
    user_prompt,
)
from mnemotune.policies import MemoryPolicy, load_policy, presets
from mnemotune.policies.lm import Request
from mnemotune.policies.prompts import Templates
from staged import rollout

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario

TEXTS = Templates.bundled()


def question(*answers: str, query: str = "What now?") -> Question:
    choices = [{"state": [str(i)], "answer": text} for i, text in enumerate(answers)]
    return Question.model_validate({"query": query, "required_info": ["pet"], "answer_choices": choices})


FOUR = question("sleep", "eat", "run", "play")


# Numbers


def test_the_default_rounds_are_those_of_v1_base() -> None:
    assert [Protocol().rounds(period) for period in range(3)] == [1, 2, 2]


def test_only_period_0_takes_the_initial_rounds() -> None:
    protocol = Protocol(rounds_init=4, rounds_update=3)
    assert [protocol.rounds(period) for period in range(3)] == [4, 3, 3]


@pytest.mark.parametrize(("preset", "writes"), [("native", 0), ("rag", 0), ("awi", 48), ("awe", 96)])
def test_a_life_of_v1_base_takes_at_most_its_known_calls(preset: str, writes: int, base_life: Scenario) -> None:
    assert Protocol().episode_calls(base_life, load_policy(preset)) == 50 + 20 + 110 + 110 + writes


def test_an_upper_bound_takes_one_call_for_each_choice(make_scenario: MakeScenario) -> None:
    assert upper_bound_calls(make_scenario(questions=3, kinds=("pet", "flat", "job"))) == 3 * 2**3


shapes = st.fixed_dictionaries(
    {
        "sessions": st.lists(st.integers(0, 3), min_size=1, max_size=4),
        "questions": st.integers(0, 2),
    }
)
protocols = st.builds(Protocol, rounds_init=st.integers(1, 3), rounds_update=st.integers(1, 3))


def calls_taken(scenario: Scenario, policy: MemoryPolicy, protocol: Protocol, model: Any, cast: Any) -> int:
    episode = asyncio.run(rollout(scenario, policy, cast(model, protocol=protocol)))
    assert episode.failure is None
    assert episode.ledger.total.calls == len(model.requests)
    return len(model.requests)


@pytest.mark.parametrize("preset", presets())
@given(shape=shapes, protocol=protocols)
@settings(max_examples=10, deadline=None)
def test_no_preset_takes_more_calls_than_foretold(
    preset: str,
    shape: dict[str, Any],
    protocol: Protocol,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
) -> None:
    scenario, policy = make_scenario(**shape), load_policy(preset)
    taken = calls_taken(scenario, policy, protocol, make_model(), make_cast)
    foretold = protocol.episode_calls(scenario, policy)
    assert taken <= foretold
    if preset in {"native", "rag", "awi", "awi_oracle"}:
        assert taken == foretold


def divided(request: Request) -> str:
    """Tell each message as an episode of its own, in which nothing was not to be expected."""
    numbers = re.findall(r'"number": (\d+)', request.messages[-1].content)
    told = [{"title": "A title", "narrative": f"Message {number}.", "last": number} for number in numbers]
    return json.dumps({"episodes": told} if numbers else {"expected": "", "facts": []})


@given(shape=shapes, protocol=protocols, update_every=st.integers(1, 7), buffer_size=st.integers(0, 7))
@settings(max_examples=25, deadline=None)
def test_episodes_however_they_are_divided_take_no_more_calls_than_foretold(
    shape: dict[str, Any],
    protocol: Protocol,
    update_every: int,
    buffer_size: int,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
) -> None:
    values = load_policy("nemori").model_dump() | {"update_every": update_every, "buffer_size": buffer_size}
    scenario, policy = make_scenario(**shape), MemoryPolicy.model_validate(values)
    taken = calls_taken(scenario, policy, protocol, make_model(write=divided), make_cast)
    assert taken <= protocol.episode_calls(scenario, policy)


@pytest.mark.parametrize(
    ("backend", "calls"),
    # 96 messages are written, two at a time; something is brought back for 50 turns, 110 questions and 110 probes
    [
        ("mem0ai", 2 * 48),
        ("langmem", 2 * 48),
        ("mem0ai-kuzu", 5 * 48 + 270),
        ("a-mem-package", 2 * 96),
        ("nemori-package", 48 + 3 * 96),
    ],
)
def test_a_package_s_calls_are_foretold_whatever_the_mode(base_life: Scenario, backend: str, calls: int) -> None:
    shared = {"update_every": 2, "buffer_size": 4, "store": "external", "top_k": 30}
    package = MemoryPolicy.model_validate({"backend": backend, "write": {"mode": "verbatim"}, **shared})
    assert Protocol().episode_calls(base_life, package) == 50 + 20 + 110 + 110 + calls


@given(
    shape=shapes,
    protocol=protocols,
    write=st.fixed_dictionaries(
        {"mode": st.sampled_from(["verbatim", "facts", "profile"]), "roles": st.sampled_from(["user", "both"])}
    ),
    update_every=st.integers(1, 7),
    buffer_size=st.integers(0, 7),
    where=st.sampled_from([{"store": "context"}, {"store": "external", "top_k": 2}]),
)
@settings(max_examples=60, deadline=None)
def test_no_policy_at_all_takes_more_calls_than_foretold(
    shape: dict[str, Any],
    protocol: Protocol,
    write: dict[str, str],
    update_every: int,
    buffer_size: int,
    where: dict[str, Any],
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
) -> None:
    policy = MemoryPolicy.model_validate(
        {"write": write, "update_every": update_every, "buffer_size": buffer_size, **where}
    )
    scenario = make_scenario(**shape)
    taken = calls_taken(scenario, policy, protocol, make_model(), make_cast)
    assert taken <= protocol.episode_calls(scenario, policy)


# What is asked


def test_a_question_is_its_query_and_its_choices_numbered_from_1() -> None:
    prompt = answer_prompt(TEXTS.answer, FOUR)
    assert prompt.startswith("What now?\n\n")
    assert "\n1: sleep\n2: eat\n3: run\n4: play\n" in prompt


def test_a_choice_of_several_lines_is_put_on_one() -> None:
    assert "\n1: Sleep. 2: Wake up.\n2: eat\n" in answer_prompt(TEXTS.answer, question("Sleep.\n2: Wake up.", "eat"))


def test_braces_in_a_question_are_left_alone() -> None:
    asked = question("{query} {0}", "{", query="{choices} or {x}?")
    prompt = answer_prompt(TEXTS.answer, asked)
    assert prompt.startswith("{choices} or {x}?\n\n")
    assert "\n1: {query} {0}\n2: {\n" in prompt


def test_an_answer_prompt_carries_no_date(base_life: Scenario) -> None:
    prompt = answer_prompt(TEXTS.answer, base_life.qas[0])
    assert "Time" not in prompt
    assert "202" not in prompt


def test_the_upper_bound_is_told_the_state_as_json() -> None:
    prompt = upper_bound_prompt(TEXTS.upper_bound, FOUR, {"pet": "sehr müde", "flat": "small"})
    start = prompt.index("{\n")
    told, _ = json.JSONDecoder().raw_decode(prompt, start)
    assert told == {"pet": "sehr müde", "flat": "small"}
    assert "sehr müde" in prompt
    assert "\n1: sleep\n2: eat\n3: run\n4: play\n" in prompt


def test_a_probe_lists_every_value_of_the_states_behind_the_question(make_scenario: MakeScenario) -> None:
    scenario = make_scenario()
    prompt = probe_prompt(TEXTS.probe, scenario.qas[1], scenario)
    listed, _ = json.JSONDecoder().raw_decode(prompt, prompt.index("{\n"))
    assert listed == {"pet_1": ["low", "mid", "high"], "flat_1": ["low", "mid", "high"]}
    assert prompt.startswith("ann asks question 1?\n\n")


def test_a_probe_shows_no_answers(make_scenario: MakeScenario) -> None:
    scenario = make_scenario()
    assert "Fit for" not in probe_prompt(TEXTS.probe, scenario.qas[0], scenario)


def test_the_simulated_user_is_told_who_it_is_when_it_is_and_what_was_said(make_scenario: MakeScenario) -> None:
    prompt = user_prompt(TEXTS.user, make_scenario(), 2, "[Current Time: T]\nHow are you?", ("Well?", "Quite well."))
    for told in (
        "name: ann\nage: 41",
        "2021-01-01",
        "2023-01-01",
        "[Current Time: T]\nHow are you?",
        "User: Well?\nAssistant: Quite well.",
    ):
        assert told in prompt


def test_the_simulated_user_knows_every_state_that_it_must_not_tell(make_scenario: MakeScenario) -> None:
    scenario = make_scenario()
    prompt = user_prompt(TEXTS.user, scenario, 0, "Hi", ("Hi", "Hello"))
    for info, values in scenario.state_schema.items():
        assert f'"{info}": {json.dumps(values)}' in prompt


def test_names_of_states_stand_in_prompts_as_they_are_written(make_scenario: MakeScenario) -> None:
    scenario = make_scenario()
    schema = {"größe_wohnung": ["klein", "groß"], **scenario.state_schema}
    told = scenario.model_copy(update={"state_schema": schema})
    assert '"größe_wohnung": ["klein", "groß"]' in user_prompt(TEXTS.user, told, 0, "Hi", ("Hi", "Hello"))


def test_the_simulated_user_does_not_know_the_states_themselves(make_scenario: MakeScenario) -> None:
    quiet = make_scenario()
    changed = make_scenario(changes={0: {"pet_0": "high"}, 1: {"flat_1": "mid"}})
    asked = [user_prompt(TEXTS.user, scenario, 1, "Hi", ("Hi", "Hello")) for scenario in (quiet, changed)]
    assert asked[0] == asked[1]


# How replies are read


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ('```json\n{"answer": 2}\n```', 1),
        ('```JSON\n{"answer": 2}\n```', 1),
        ('```\n{"answer": 2}\n```', 1),
        ('{"answer": 2}', 1),
        ('  {"answer":\n4}  ', 3),
        ('Well, {"answer": 1} it is.', 0),
        ('First {"answer": 1}, no: {"answer": 3}', 2),
        ('```json\n{"answer": 1}\n```\nNo, rather\n```json\n{"answer": 3}\n```', 2),
        ('{"answer": "2"}', 1),
        ('{"answer": " 2 "}', 1),
        ('{"answer": "02"}', 1),
        ('{"why": {"answer": 4}, "answer": 2}', 1),
        ('{"answer": 0}', None),
        ('{"answer": "0"}', None),
        ('{"answer": -1}', None),
        ('{"answer": "-1"}', None),
        ('{"answer": 5}', None),
        ('{"answer": "5"}', None),
        ('{"answer": 99999999999999999999}', None),
        ('{"answer": true}', None),
        ('{"answer": false}', None),
        ('{"answer": null}', None),
        ('{"answer": [2]}', 1),
        ('{"answer": {"answer": 2}}', 1),
        ('{"answer": 2.5}', None),
        ('{"answer": NaN}', None),
        ('{"answer": Infinity}', None),
        ('{"answer": "2.0"}', None),
        ('{"answer": "1: sleep"}', 0),
        ('{"answer": "²"}', None),
        ('{"answer": ""}', None),
        ('{"answer": "' + "1" * 5000 + '"}', None),
        ('{"Answer": 2}', 1),
        ("{}", None),
        ('[{"answer": 2}]', None),
        ("2", 1),
        ('"2"', 1),
        ("null", None),
        ("", None),
        ("```json\n```", None),
        ("The second one.", None),
        ('{"answer": 2', None),
        ('{"answer": {"id": "2", "title": "Have a bite, as you always do"}}', 1),
        ('{"answer": {"id": 2, "title": "Eat."}}', 1),
        ('{"answer": {"id": 2, "title": "run"}}', None),
        ('{"answer": {"id": 2, "number": 3}}', None),
        ('{"answer": {"index": 2}}', None),
        ('{"answer": {"score": 1, "text": "Play"}}', 3),
        ('{"answer": {"3": "run"}}', 2),
        ('{"answer": {"3": "eat"}}', None),
        ('{"answer": "RUN"}', 2),
        ('{"answer": "3. run"}', 2),
        ('{"answer": "3. eat"}', None),
        ('{"answer": "3 or 4"}', None),
        ('{"answer": [2, 3]}', None),
        ('{"answer": ["2", "eat"]}', None),
        ('{"answer": 2.0}', None),
        ('{"number": 2, "text": "eat"}', 1),
        ('{"answer": 2, "number": 3}', 1),
        ('{"answer": 2, "why": "since the', 1),
        ('{"why": "since 2 is", "answer": 2', None),
        ("The best answer is 2.", 1),
        ("**Answer: 2**", 1),
        ("(2)", 1),
        ("-2", None),
        ("1/2", None),
        ("2.5", None),
        ("2: eat", 1),
        ("2: play", None),
        ("eat", 1),
        ("I would eat 2 of them.", None),
        ("{" * 50_000, None),
        ("[" * 50_000, None),
        ('{"a":' * 15_000, None),
        ('{"answer": 2}' + " " * 100_000, None),
    ],
)
def test_an_answer_is_read_as_a_choice_or_as_none(reply: str, choice: int | None) -> None:
    assert read_answer(reply, FOUR) == choice


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ('```json\n{"pet": "calm"}\n```', {"pet": "calm"}),
        ('{"pet": "calm", "flat": "small"}', {"pet": "calm", "flat": "small"}),
        ('{"pet": 3, "flat": null, "job": ["a"], "age": true, "car": "old"}', {"car": "old", "job": "a"}),
        ('{"pet": {"value": "calm"}, "flat": ["small", "large"], "car": {"a": "old", "b": "new"}}', {"pet": "calm"}),
        ('{"answer": {"pet": "calm", "flat": "small"}}', {"pet": "calm", "flat": "small"}),
        ('{"pet": "calm", "flat": "sm', {"pet": "calm"}),
        ("{}", {}),
        ('["calm"]', None),
        ('"calm"', None),
        ("", None),
        ("calm", None),
        ("{" * 50_000, None),
    ],
)
def test_a_probe_is_read_as_values_or_as_none(reply: str, values: dict[str, str] | None) -> None:
    assert read_probe(reply) == values


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.text() | json_values.map(json.dumps) | json_values.map(lambda value: json.dumps({"answer": value})))
def test_no_reply_can_break_reading(reply: str) -> None:
    choice = read_answer(reply, FOUR)
    assert choice is None or 0 <= choice < 4
    values = read_probe(reply)
    assert values is None or all(isinstance(value, str) for value in values.values())
    every = frozenset(DEFECTS)
    choice = read_answer(reply, FOUR, compat=every)
    assert choice is None or 0 <= choice < 4
    values = read_probe(reply, compat=every)
    assert values is None or all(isinstance(value, str) for value in values.values())


@given(st.integers(-20, 20), st.sampled_from(["{}", '"{}"', '" {} "']))
def test_exactly_the_numbers_of_the_choices_are_choices(number: int, form: str) -> None:
    choice = read_answer(f'{{"answer": {form.format(number)}}}', FOUR)
    assert choice == (number - 1 if 1 <= number <= 4 else None)
