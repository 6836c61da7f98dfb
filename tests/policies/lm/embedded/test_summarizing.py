"""Running summaries of the embedded model.

Invariants:

1. A summary has nothing that was not read, and takes no more than the prompt says.
2. What an observation says of a value can still be asked for, under the names that led to it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.summarizing import write_summary
from mnemotune.policies.prompts import Templates, render

if TYPE_CHECKING:
    from .conftest import Ask, AskFor

CODE = """File: lib/net.py
import socket

TIMEOUT = 30

class Pool(Base):
    size = 8
    def get(self, retries=3):
        raise ValueError('no')
"""
ORDER = {"order_id": "W8812", "status": "pending", "items": [{"name": "Blue kettle", "price": 19.5}]}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"order_id": "W8812"}'}}
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello there! I live in Porto and I prefer evening delivery."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": json.dumps(ORDER), "tool_call_id": "c1"},
    {"role": "user", "content": CODE},
    {"role": "user", "content": "Veltrane\nIt is maintained by Oda Fenwick. People like it a lot."},
    {"role": "assistant", "content": "All done. Have a good day."},
]


def prompt(conversation: list[dict[str, Any]], so_far: str = "", tokens: int = 300) -> str:
    slots = {"memories": json.dumps({"summary": so_far}, indent=2), "conversation": json.dumps(conversation, indent=2)}
    return render(Templates.bundled().write_summary, tokens=str(tokens), **slots)


def summary(conversation: list[dict[str, Any]], so_far: str = "", *, instructions: str = "") -> str:
    written: str = json.loads(write_summary(instructions, so_far, conversation))["summary"]
    return written


def user(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def test_it_keeps_what_carries_a_value_under_what_it_belongs_to(ask_for_json: AskFor) -> None:
    assert ask_for_json(prompt(TALK))["summary"].splitlines() == [
        "I live in Porto and I prefer evening delivery.",
        'get_order({"order_id": "W8812"})',
        ' order_id: "W8812"',
        ' status: "pending"',
        ' items.0.name: "Blue kettle"',
        " items.0.price: 19.5",
        "File: lib/net.py",
        " TIMEOUT = 30",
        " class Pool(Base):",
        "  size = 8",
        "  def get(self, retries=3):",
        "   raise ValueError('no')",
        "Veltrane",
        " It is maintained by Oda Fenwick.",
    ]


def test_the_summary_so_far_is_kept_and_read_again(ask_for_json: AskFor) -> None:
    first = ask_for_json(prompt(TALK))["summary"]
    assert ask_for_json(prompt(user("Nice weather, is it not?"), first))["summary"] == first
    assert ask_for_json(prompt(user("Veltrane\nIt needs Mirro 2."), first))["summary"] == f"{first}\n It needs Mirro 2."


def test_a_newer_value_stands_for_the_older() -> None:
    first = summary(user(CODE))
    later = summary(user(CODE.replace("30", "45")), first)
    assert "TIMEOUT = 45" in later
    assert "TIMEOUT = 30" not in later
    moved = summary(user("I now live in Faro."), "I live in Porto.\nI prefer tea.")
    assert moved.splitlines() == ["I prefer tea.", "I now live in Faro."]


def test_records_are_told_apart_by_their_first_value() -> None:
    rows = ['{"id": "B1", "state": "new"}', '{"id": "B2", "state": "new"}', '{"id": "B1", "state": "done"}']
    assert summary(user("find() returned:\n" + "\n".join(rows))).splitlines() == [
        "find() returned:",
        f" {rows[1]}",
        f" {rows[2]}",
    ]


def test_of_what_is_said_no_more_is_noted_than_in_one_go() -> None:
    told = ("own two red bicycles", "swim each Sunday morning", "rent rooms above bakeries", "mend old garden chairs")
    said = [f"I always {what} with joy." for what in (*told, "paint boats blue", "hate loud radio music")]
    lines = summary(user(" ".join(said), CODE)).splitlines()
    assert [line for line in lines if line in said] == said[:3]
    assert " TIMEOUT = 30" in lines


def test_the_time_of_a_message_is_no_value() -> None:
    said = "[Current Time: 2020-09-23 19:35:49]\nI keep bees, and nobody minds. What do they eat?"
    assert summary(user(said)) == "I keep bees, and nobody minds."


def test_code_in_which_somebody_speaks_is_no_talk() -> None:
    code = "# a.py, in get\n    # we wait here\n    limit = 3\n    return limit"
    assert summary(user(code)).splitlines() == ["# a.py, in get", " limit = 3", " return limit"]


def test_with_little_room_what_names_a_value_and_then_what_is_newer_stays() -> None:
    talk = user("Bread is sold in Aveiro.", *(f"key_{i} = {i}" for i in range(9)))
    assert summary(talk, instructions="Use at most 8 tokens.").splitlines() == ["key_6 = 6", "key_7 = 7", "key_8 = 8"]
    assert summary(talk, instructions="Write no more than 2 words.") == "key_8 = 8"


def test_what_a_prompt_asks_for_by_name_comes_first() -> None:
    talk = user("The colour is pink = 1", "The delivery address = 2", "The size = 3")
    asked = "At most 8 tokens.\n- delivery address"
    assert summary(talk, instructions=asked) == "The delivery address = 2"


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is the status of order W8812?", "pending"),
        ("What is TIMEOUT in lib/net.py?", "30"),
        ("What is the default size of Pool?", "8"),
        ("Which exception does Pool.get raise?", "ValueError"),
        ("Who maintains Veltrane?", "Oda Fenwick"),
    ],
)
def test_values_can_be_asked_for_invariant_2(ask: Ask, ask_for_json: AskFor, question: str, value: str) -> None:
    matters = ask_for_json(prompt(TALK))["summary"].replace("\n", "\n- ").replace("\n-  ", "\n  ")
    shown = Message("system", render(Templates.bundled().reply_summary, memories=f"- {matters}"))
    assert ask_for_json(shown, render(Templates.bundled().slot, query=question)) == {"value": value}


def test_notes_go_under_the_labels_of_a_schema(ask_for_json: AskFor) -> None:
    slots = {"memories": '{"orders": "get_order\\n state: new"}', "conversation": json.dumps(TALK, indent=2)}
    labels = "- orders\n- files and classes\n- further facts"
    written = ask_for_json(render(Templates.bundled().write_profile_labels, labels=labels, **slots))
    assert list(written) == ["further facts", "orders", "files and classes"]
    assert written["orders"].startswith('get_order\n state: new\nget_order({"order_id": "W8812"})\n order_id: "W8812"')
    assert "TIMEOUT = 30" in written["files and classes"]


def test_other_lists_of_a_prompt_are_no_labels(ask_for_json: AskFor) -> None:
    prompt = "Use only these labels:\n- orders\n- further facts\n\nAbove all:\n- Bees and hives\n\nConversation:\n"
    assert ask_for_json(prompt + json.dumps(user("I keep bees.", "order_id: W1"))) == {
        "further facts": "I keep bees.",
        "orders": "order_id: W1",
    }


@pytest.mark.parametrize(
    "listed",
    [
        "## Labels you may use (no others)\n- orders\n- further facts\n\n",
        "Use only these labels:\n```\n- orders\n- further facts\n```\n",
        "<labels>\n  - orders\n  - further facts\n</labels>\nStick to these labels.\n",
    ],
)
def test_labels_stand_beside_a_sentence_that_allows_no_others(ask_for_json: AskFor, listed: str) -> None:
    prompt = f"{listed}\nConversation:\n"
    assert list(ask_for_json(prompt + json.dumps(user("I keep bees.", "order_id: W1")))) == ["further facts", "orders"]


@pytest.mark.parametrize("calls", [None, 3, [None], [{"id": 1}], [{"function": "f"}], {"id": "c"}])
def test_calls_of_any_form_are_read(calls: object) -> None:
    deep = "[" * 400 + "7" + "]" * 400
    talk = [{"role": "assistant", "content": None, "tool_calls": calls}, {"role": "tool", "content": deep}]
    assert len(summary(talk)) < 1200


@settings(deadline=None)
@given(
    texts=st.lists(st.text("ab =:\n.", max_size=60) | st.sampled_from([CODE, json.dumps(ORDER), "[1, {}"]), max_size=5),
    tokens=st.integers(1, 60),
)
def test_a_summary_is_no_longer_than_it_may_be_invariant_1(texts: list[str], tokens: int) -> None:
    written = summary(user(*texts), "Likes tea.\n Since 2020.", instructions=f"At most {tokens} tokens.")
    assert len(written.encode()) <= 4 * tokens
