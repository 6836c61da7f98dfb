"""The embedded model as a whole.

Invariants:

1. It knows nothing but the messages: nothing else in a request alters its text, and nothing outlives a call.
2. No text makes it raise.
3. It understands what is asked from the wording of the messages, also when a prompt has evolved.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data import Scenario, load_scenarios
from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env.dialogue.protocol import (
    answer_prompt,
    probe_prompt,
    read_answer,
    read_probe,
    upper_bound_prompt,
    user_prompt,
)
from mnemotune.policies.forms import ANY_OBJECT
from mnemotune.policies.lm import CALL_ROLES, Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.reading import Reading
from mnemotune.policies.prompts import Templates, render
from mnemotune.policies.replies import read_json_object

if TYPE_CHECKING:
    from .conftest import Ask, AskFor, ConversationOf

TEXTS = Templates.bundled()
SAMPLE = Path(__file__).parents[5] / "shared" / "data" / "amemgym_sample.json"
QUESTION = "Which food?\n\nChoose.\n1: Less of it for the cat.\n2: More of it for the dog."


@pytest.fixture(scope="module")
def users() -> list[Scenario]:
    return generate_scenarios(users=3, seed=1)


# Nothing but messages


def test_the_same_messages_get_the_same_reply_from_any_instance(ask: Ask) -> None:
    for texts in (("I have a cat.", QUESTION), ("I swim. What should I eat?",)):
        assert len({ask(*texts) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    "messages",
    [
        ("I have a cat.", QUESTION),
        ("I swim every day. What should I eat?",),
        (
            render(
                TEXTS.write_profile, memories="{}", conversation='[\n  {"role": "user", "content": "I own a cat."}\n]'
            ),
        ),
    ],
)
def test_nothing_else_in_a_request_alters_the_reply(ask: Ask, messages: tuple[str, ...]) -> None:
    others: list[Mapping[str, Any]] = [
        *({"role": role} for role in CALL_ROLES),
        {"form": ANY_OBJECT},
        {"temperature": 1.0},
        {"max_tokens": 1},
        {"repeat": 7},
    ]
    assert len({ask(*messages, **other) for other in others}) == 1


def test_nothing_outlives_a_call() -> None:
    model = EmbeddedModel()

    def say(*texts: str) -> str:
        return asyncio.run(model.complete(Request(tuple(Message("user", text) for text in texts), "answer"))).text

    first = say(QUESTION)
    say("I have a dog. My dog is hungry.", QUESTION)
    assert say(QUESTION) == first


def test_a_reader_that_is_asked_for_replies_and_else_the_first_does() -> None:
    hasty, careful = Reading(forgetting=30.0), Reading(habit=30.0)
    model = EmbeddedModel({"careful": careful, "hasty": hasty})
    talk = [
        Message("user", text) for text in ("I have a cat.", *["It rains a lot here."] * 9, "I have a dog.", QUESTION)
    ]

    def answer(reader: str) -> str:
        return asyncio.run(model.complete(Request(tuple(talk), "answer", reader=reader))).text

    assert answer("") == answer("careful") != answer("hasty")
    for name in READERS:
        assert asyncio.run(EmbeddedModel().complete(Request(tuple(talk), "answer", reader=name))).text


def test_usage_is_four_characters_a_token_rounded_up() -> None:
    model = EmbeddedModel()
    completion = asyncio.run(model.complete(Request((Message("system", "ab"), Message("user", "cde")), "reply")))
    assert completion.usage.input_tokens == 2
    assert completion.usage.output_tokens == -(-len(completion.text) // 4)
    assert completion.usage.cost_usd == 0.0


def test_no_messages_get_an_empty_reply() -> None:
    assert asyncio.run(EmbeddedModel().complete(Request((), "reply"))).text == ""


# Any text

LONG = "1" * 5000
ENGINEERING = '[[ ## current_prompts ## ]]\n{"write": "Note {conversation}."}\n[[ ## failures ## ]]'
HOSTILE = (
    "",
    "?",
    "\x00",
    "half a character \ud83d is here. What now?",
    f"Which?\n{LONG}: a\n2: b",
    f"[{LONG}]",
    f'JSON, please:\n"pet": ["cat", {LONG}]',
    'JSON, please:\n"pet": ["cat", ' + "[" * 50_000 + "]",
    "[" * 100_000,
    "{\n" * 2000,
    f"{ENGINEERING}\n[{LONG}]",
    f"{ENGINEERING}\n" + "[" * 50_000,
    f"{ENGINEERING}\n" + "[" * 500 + "]" * 500,
    f'[[ ## current_numbers ## ]]\n{{"top_k": "{LONG} ({LONG} to {LONG})"}}\n{ENGINEERING}\n["The user said: x"]',
    f'[[ ## current_numbers ## ]]\n{{"top_k": {LONG}}}\n{ENGINEERING}\n["The user said: x"]',
    "[[ ## failures ## ]]\n[[ ## current_prompts ## ]]",
    'Conversation:\n[{"content": null}]',
    'Conversation:\n[{"role": ["user"], "content": {"a": 1}}]',
    'Conversation:\n[{"role": "user", "content": "I like tea and cake."}, 7]',
    '"ADD"\n[]\n[]',
    '"ADD"\n{"1": ["x"]}\n[{"y": null}]',
    *(
        f'{shape * n}1{end * n}\n[{{"role": "user", "content": "I own a boat."}}]\nJSON with facts: {{}}'
        for shape, end in (('{"a": ', "}"), ("{a: ", "}"), ("{'a': ", "}"), ('{"a": [', "]}"))
        for n in (400, 900, 985, 1200)
    ),
    '[{"role": 2, "content": 1}] {"x": "y"} {"core": [{"event": null, "text": 1}]} {"properties": []}',
    "Role-play the user.\nUser: \nAssistant: ",
    "Role-play the user.\nAssistant: \ud83d half a character. And more",
    'JSON\n"k": [""]\n"k": ["a"]',
    "1: a\n2: b",
    "Q\n1: \n2: \n1: ?\n2: ?",
    "Respond with a JSON object in the following order of fields: `.",
    f"Respond with a JSON object in the following order of fields: `a` (must be formatted as a valid Python {LONG}).",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_hostile_text_makes_it_raise(ask: Ask, text: str) -> None:
    ask(text)
    ask(text, QUESTION)
    ask(Message("system", text), Message("assistant", text), "Hello?")


SCRAPS = st.sampled_from(
    [
        *("\n", " ", ". ", "? ", "- ", "{", "}", "[", "]", '"', ": ", ",", "`", "\\"),
        *("1: ", "2: a cat\n", "3: \n", "User: ", "Assistant: ", "Conversation:\n", "```json\n", "JSON"),
        *('"pet": ["cat", "dog"]\n', '"a": ["', '{"facts": []}', '"ADD"', "{conversation}", "{memories}", "{facts}"),
        *('\n[{"role": "user", "content": "I own a cat."}]\n', '\n{"0": "a cat"}\n', '\n["a dog"]\n', "null"),
        *("[[ ## current_prompts ## ]]\n", "[[ ## failures ## ]]\n", '["The user said: x"]', "\nRespond with JSON"),
        *("[[ ## current_numbers ## ]]\n", '{"top_k": "2 (1 to 9)"}\n', '{"write": "{conversation}"}\n'),
        *("role-play the user", "I own ", "my sister is ", "the latest ", "[Current Time: 2021-01-01 20:00:00]\n"),
        *("Respond with a JSON object in the following order of fields: `", "a`", ", then `", "[[ ## a ## ]]\n"),
    ]
)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant"]),
    st.one_of(st.text(max_size=30), st.lists(SCRAPS | st.text(max_size=5), max_size=12).map("".join)),
)


@settings(deadline=None, max_examples=250)
@given(messages=st.lists(MESSAGES, max_size=4))
def test_no_text_makes_it_raise(messages: list[Message]) -> None:
    model, request = EmbeddedModel(), Request(tuple(messages), "reply")
    completion = asyncio.run(model.complete(request))
    assert isinstance(completion.text, str)
    assert asyncio.run(model.complete(request)) == completion


# What is asked


def test_each_of_the_bundled_prompts_is_understood(
    users: list[Scenario], ask: Ask, conversation: ConversationOf
) -> None:
    scenario = users[0]
    question = scenario.qas[0]
    state = {info: scenario.periods[0].state[info] for info in question.required_info}
    talk = conversation("I own a small boat in the harbour.")
    assert read_answer(ask("Hello.", answer_prompt(TEXTS.answer, question)), question) is not None
    assert read_answer(ask(upper_bound_prompt(TEXTS.upper_bound, question, state)), question) is not None
    assert read_probe(ask("Hello.", probe_prompt(TEXTS.probe, question, scenario))) is not None
    profile = read_json_object(ask(render(TEXTS.write_profile, memories="{}", conversation=talk)))
    assert "boat" in str(profile)
    facts = read_json_object(ask(render(TEXTS.write_facts, conversation=talk)))
    assert facts == {"facts": ["I own a small boat in the harbour."]}
    merged = read_json_object(ask(render(TEXTS.merge, memories='{\n  "0": "I ski."\n}', facts='[\n  "I golf."\n]')))
    assert merged == {"memory": [{"event": "ADD", "text": "I golf."}]}
    opening = scenario.periods[1].sessions[0].opening
    follow_up = ask(user_prompt(TEXTS.user, scenario, 1, opening, (opening, "Try a larger bucket first.")))
    assert "{" not in follow_up
    assert follow_up.endswith("?")


@pytest.mark.parametrize(
    ("prompt", "key"),
    [
        ('Extract facts as {"facts": [...]}.\n\nConversation:\n{conversation}\n\nBe brief.', "facts"),
        ("# The conversation\n{conversation}\n\nReturn labels and texts as JSON.", None),
        ("Known:\n{memories}\nconversation:\n{conversation}", None),
    ],
)
def test_an_evolved_write_prompt_is_understood_as_well(
    ask_for_json: AskFor, conversation: ConversationOf, prompt: str, key: str | None
) -> None:
    reply = ask_for_json(render(prompt, memories="{}", conversation=conversation("I own a small boat.")))
    assert "boat" in str(reply[key] if key else reply)


def test_a_question_in_other_words_is_still_a_question(ask_for_json: AskFor) -> None:
    evolved = "Think hard, and rely on the newest statement. {query}\n\nOptions:\n{choices}\n\nJSON, please."
    prompt = render(evolved, query="Which food?", choices="1: Fish for the cat.\n2: Bones for the dog.\n3: Hay.")
    assert ask_for_json("I have a dog.", prompt) == {"answer": 2}


def test_the_right_answer_is_found_where_the_state_is_given(users: list[Scenario], ask: Ask) -> None:
    right, asked = 0, 0
    for scenario in users:
        for question in scenario.qas:
            for position, choice in enumerate(question.answer_choices):
                state = dict(zip(question.required_info, choice.state, strict=True))
                reply = ask(upper_bound_prompt(TEXTS.upper_bound, question, state))
                right += read_answer(reply, question) == position
                asked += 1
    assert asked > 100
    assert right / asked > 0.75


def test_right_evidence_is_worth_much_more_than_chance(users: list[Scenario], ask: Ask) -> None:
    answers, probes, asked = 0, 0, 0
    for scenario in users:
        period = scenario.periods[0]
        told = {info: session.query for session in period.sessions for info in session.exposed_states}
        for question in scenario.qas:
            evidence = list(dict.fromkeys(told[info] for info in question.required_info))
            reply = ask(*evidence, answer_prompt(TEXTS.answer, question))
            answers += read_answer(reply, question) == question.gold(period.state)
            values = read_probe(ask(*evidence, probe_prompt(TEXTS.probe, question, scenario))) or {}
            probes += sum(values[info] == period.state[info] for info in question.required_info)
            asked += 1
    assert answers / asked > 0.45
    assert probes / (2 * asked) > 0.7


def test_a_question_in_the_words_of_the_sealed_test_mostly_gets_the_same_answer(
    users: list[Scenario], ask: Ask
) -> None:
    same, asked = 0, 0
    for scenario in users:
        talk = [session.query for session in scenario.periods[0].sessions]
        for question in scenario.qas:
            prompts = [answer_prompt(template, question) for template in (TEXTS.answer, TEXTS.answer_reworded)]
            one, other = (read_answer(ask(*talk, prompt), question) for prompt in prompts)
            assert prompts[0] != prompts[1]
            assert other is not None
            same += one == other
            asked += 1
    assert asked >= 30
    assert same / asked > 0.9


def test_a_real_users_words_are_read_better_than_by_chance(ask: Ask) -> None:
    if not SAMPLE.is_file():
        pytest.skip(f"the real user of AMemGym's authors is not beside this checkout ({SAMPLE})")
    (scenario,) = load_scenarios(SAMPLE)
    period = scenario.periods[0]
    told = {info: session.query for session in period.sessions for info in session.exposed_states}
    right = 0
    for question in scenario.qas:
        evidence = [told[info] for info in question.required_info]
        values = read_probe(ask(*evidence, probe_prompt(TEXTS.probe, question, scenario))) or {}
        right += sum(values[info] == period.state[info] for info in question.required_info)
    assert right / 20 > 0.5


def test_probes_are_answered_with_values_of_the_schema(users: list[Scenario], ask: Ask) -> None:
    for question in users[0].qas:
        values = read_probe(ask("Hello.", probe_prompt(TEXTS.probe, question, users[0]))) or {}
        assert list(values) == question.required_info
        assert all(value in users[0].state_schema[info] for info, value in values.items())


def test_json_replies_parse_whatever_was_said(ask_for_json: AskFor) -> None:
    said = 'I say "quotes", \\backslashes\\ and ünïcödé 猫 in my garden. I own {braces} and ```fences``` of wood.'
    talk = json.dumps([{"role": "user", "content": said}], indent=2)
    for prompt in (
        render(TEXTS.write_profile, memories="{}", conversation=talk),
        render(TEXTS.write_facts, conversation=talk),
        render(TEXTS.merge, memories=json.dumps({"0": said}, indent=2), facts=json.dumps([said + " x"], indent=2)),
    ):
        assert isinstance(ask_for_json(prompt), dict)
