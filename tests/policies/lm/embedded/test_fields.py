"""Replies in the form that DSPy's adapters ask for; DSPy itself asks for them in ``test_serving_clients``.

Invariants:

1. A form alters how a reply is laid out, and not what it says.
2. Whatever is not such a form, word for word, is a plain text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.fields import MOST_FIELDS, find_form, without_form

if TYPE_CHECKING:
    from .conftest import Ask

QUESTION = "I own a small boat. Where shall I go?"
CHAT = (
    "Respond with the corresponding output fields, starting with the field `[[ ## answer ## ]]`, then "
    "`[[ ## sure ## ]]` (must be formatted as a valid Python bool), and then ending with the marker for "
    "`[[ ## completed ## ]]`."
)
JSON = (
    "Respond with a JSON object in the following order of fields: `answer`, then `sure` (must be formatted as a valid "
    "Python bool)."
)


def asked(form: str, question: str = QUESTION) -> str:
    return f"[[ ## question ## ]]\n{question}\n\n{form}"


def typed(kind: str) -> str:
    return f"{JSON[:-1]}, then `other` (must be formatted as a valid Python {kind})."


def test_a_form_of_sections_is_filled_with_the_reply_to_the_plain_text(ask: Ask) -> None:
    expected = f"[[ ## answer ## ]]\n{ask(QUESTION)}\n\n[[ ## sure ## ]]\nfalse\n\n[[ ## completed ## ]]"
    assert ask(asked(CHAT)) == expected


def test_a_form_of_json_is_filled_with_the_reply_to_the_plain_text(ask: Ask) -> None:
    assert json.loads(ask(asked(JSON))) == {"answer": ask(QUESTION), "sure": False}


@pytest.mark.parametrize("form", [CHAT, JSON])
def test_earlier_messages_are_read_as_plain_text_too(ask: Ask, form: str) -> None:
    system = Message(
        "system", "Your output fields are: ...\nIn adhering to this structure, your objective is: \n  Chat."
    )
    reply = ask(system, asked(form, "My cat is called Tiger."), Message("assistant", "{}"), asked(form, "What cat?"))
    plain = ask(Message("system", "Chat."), "My cat is called Tiger.", Message("assistant", "{}"), "What cat?")
    assert "your cat is called Tiger" in plain
    assert json.dumps(plain) in reply or plain in reply


def test_the_texts_of_the_fields_are_put_together_without_their_names() -> None:
    text = f'[[ ## notes ## ]]\n["I ski.", 7]\n\n[[ ## question ## ]]\nWhy?\nHow?\n\n[[ ## none ## ]]\n\n{CHAT}'
    assert without_form(Message("user", text)) == Message("user", "I ski.\n7\n\nWhy?\nHow?")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 2),
        ("float", 2.0),
        ("list[int]", [2]),
        ("Literal['a big ship', 'a small boat']", "a small boat"),
        ("Literal[1, 2]", 2),
        ("dict[str, int]", {}),
        ("Union[int, NoneType]", 2),
        ("Literal[", None),
        ("Literal[]", None),
        ("Literal[b'x', 1j, None]", None),
        ("list[list[str]]", [None]),
        ("Decimal", None),
    ],
)
def test_other_fields_get_a_value_of_their_type_or_nothing(ask: Ask, kind: str, value: object) -> None:
    reply = json.loads(ask(asked(typed(kind), "I own 2 boats. Where shall a small boat go?")))
    assert reply["other"] == value


@pytest.mark.parametrize(
    "text",
    [
        "Respond with a JSON object.",
        f"{CHAT} Thanks!",
        f"{JSON} Thanks!",
        f"{JSON}\n",
        CHAT.replace("`[[ ## sure ## ]]`", "something else"),
        JSON.replace("`sure`", "`sure or not`"),
        JSON.replace("`sure`", "`answer`"),
        CHAT.replace(", and then ending", ", and ending"),
        "Respond with a JSON object in the following order of fields: "
        + ", then ".join(f"`f{i}`" for i in range(MOST_FIELDS + 2))
        + ".",
    ],
)
def test_what_is_almost_a_form_is_none(ask: Ask, text: str) -> None:
    assert find_form(text) is None
    ask(asked(text))


def test_a_type_without_end_raises_nothing(ask: Ask) -> None:
    ask(asked(typed("list[" * 5000)))


@pytest.mark.parametrize(
    "task",
    [
        "Which?\n1: a small boat\n2: a big ship",
        'Fill in the JSON:\n"pet": ["cat", "dog"]',
        '[[ ## current_prompts ## ]]\n{"write": "Note {conversation}."}\n\n[[ ## failures ## ]]\n["x"]',
    ],
)
def test_a_task_of_another_kind_is_answered_as_before(ask: Ask, task: str) -> None:
    assert ask(f"{task}\n\n{JSON}") == ask(f"{task}\n\nRespond with a JSON object in the following order of fields:")


@given(kind=st.text(max_size=20) | st.sampled_from(["Literal[", "list[", "Union["]).map(lambda k: k + "'a', 1, ["))
def test_no_type_makes_it_raise(ask: Ask, kind: str) -> None:
    ask(asked(typed(kind)))
