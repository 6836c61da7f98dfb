"""The embedded model copies a value out of what it is shown: code, JSON, labels and sentences."""

from __future__ import annotations

import pytest

from mnemotune.env.slot import SLOT_FORM, read_slot, slot_query, slot_query_reworded
from mnemotune.policies.lm import Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.prompts import Templates

TEMPLATES = Templates.bundled()
ENCODER = """# json/encoder.py
class JSONEncoder(object):
    item_separator = ', '
    key_separator = ': '
    def __init__(self, *, skipkeys=False, ensure_ascii=True,
            check_circular=True, indent=None):
        self.skipkeys = skipkeys
    def default(self, o):
        raise TypeError(f'{o} is not JSON serializable')
    def kind(self):
        return "encoder"
"""
DECODER = """# json/decoder.py
class JSONDecoder(Base):
    def __init__(self, *, skipkeys=True, strict=True):
        return 7
class JSONDecodeError(ValueError):
    pass
LIMIT: int = 12
"""
CALLS = """You know:
- tool: {"order_id": "#W2378156", "user_id": "rossi_9620",
  "status": "delivered", "items": [{"item_id": "1151293680", "price": 272.33}]}
- user: My name is Ann Brook and my card number is BK-1042.
- tool: {"book": "The Red Lantern", "due": "2026-11-30", "branch": "Harbour"}"""
NOTES = """You know:
- Veltrane is maintained by Oda Fenwick.
- Veltrane requires the package Mirro and was first released in 2014.
- Mirro's author is Tam Greely."""


async def asked(question: str, *shown: tuple[str, str], reworded: bool = False) -> str | None:
    query = (slot_query_reworded if reworded else slot_query)(question, TEMPLATES)
    messages = (*(Message(role, text) for role, text in shown), Message("user", query))  # type: ignore[arg-type]
    return read_slot((await EmbeddedModel().complete(Request(messages, role="answer", form=SLOT_FORM))).text)


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is the default of the parameter `skipkeys` of `JSONEncoder.__init__` in json/encoder.py?", "False"),
        ("What is the default of the parameter `skipkeys` of `JSONDecoder.__init__` in json/decoder.py?", "True"),
        ("Which exception does `JSONEncoder.default` in json/encoder.py raise?", "TypeError"),
        ("What is the base class of `JSONDecodeError` in json/decoder.py?", "ValueError"),
        ("What does `JSONEncoder.kind` return in json/encoder.py?", '"encoder"'),
        ("What is the value of the constant `LIMIT` in json/decoder.py?", "12"),
        ("What is the value of `key_separator` of `JSONEncoder`?", "': '"),
    ],
)
@pytest.mark.parametrize("reworded", [False, True])
async def test_a_value_of_code_is_the_one_of_the_name_and_the_place_that_are_asked_for(
    question: str, value: str, reworded: bool
) -> None:
    # as memory shows it, and as it came
    assert await asked(question, ("user", ENCODER), ("user", DECODER), reworded=reworded) == value


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("Which order id does the customer want to return?", "#W2378156"),
        ("What is the status of the order?", "delivered"),
        ("What is the customer's card number?", "BK-1042"),
        ("At which branch is the book The Red Lantern?", "Harbour"),
    ],
)
async def test_a_value_of_a_tool_s_result_or_of_a_customer_is_copied(question: str, value: str) -> None:
    assert await asked(question, ("system", CALLS)) == value


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("Who maintains Veltrane?", "Oda Fenwick"),
        ("Which package does Veltrane require?", "Mirro"),
        ("Who is the author of Mirro?", "Tam Greely"),
        ("When was Veltrane first released?", "2014"),
    ],
)
async def test_a_value_of_a_sentence_is_what_it_says_beyond_the_question(question: str, value: str) -> None:
    assert await asked(question, ("system", NOTES)) == value


async def test_of_two_values_the_later_holds() -> None:
    lines = "You know:\n- The pick-up branch of Ann is Harbour.\n- The pick-up branch of Ann is Castle Hill."
    assert await asked("What is the pick-up branch of Ann?", ("system", lines)) == "Castle Hill"


async def test_nothing_is_copied_where_nothing_fits() -> None:
    assert await asked("Who maintains Veltrane?") is None
    assert await asked("Who maintains Veltrane?", ("system", "You know:\n- Bread is cheap.")) is None


@pytest.mark.parametrize("raw", ["", "Mirro", "{}", '{"value": null}', '{"value": true}', '{"value": " "}'])
def test_a_reply_without_a_value_is_not_read(raw: str) -> None:
    assert read_slot(raw) is None


def test_half_a_surrogate_pair_does_not_reach_a_tool() -> None:
    assert read_slot('{"value": "12 Mill \\ud83d"}') == "12 Mill ?"


def test_a_number_is_read_as_a_text() -> None:
    assert read_slot('{"value": 7}') == "7"


@pytest.mark.parametrize(
    "line",
    [
        "licence: The licence of Mirro covers whatever is in this repository and all its forks.",
        "mirro: It was released in the year of 2019.",
        "Read this first: it is old",
    ],
)
async def test_a_topic_before_a_sentence_and_a_label_of_something_else_do_not_name_the_value(line: str) -> None:
    shown = ("system", f"You know:\n- code: The maintainer of Mirro is Oda Fenwick.\n- {line}")
    assert await asked("Who is the maintainer of Mirro?", shown) == "Oda Fenwick"
