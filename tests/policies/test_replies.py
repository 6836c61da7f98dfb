"""JSON out of what models say.

Invariants:

1. Any text gives an object or ReplyError, soon, and nothing else.
2. An object comes back as it went in, however it was wrapped.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.replies import LONGEST_REPLY, ReplyError, as_text, read_json_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": 2}',
        '  \n{"answer": 2}\n ',
        '```json\n{"answer": 2}\n```',
        '```JSON\n{"answer": 2}```',
        '```\n{"answer": 2}\n```',
        'Let me think.\n```json\n{"answer": 2}\n```\nHope this helps {really}!',
        'I choose {"answer": 2}.',
        'Either {"answer": 1} or rather {"answer": 2} it is.',
        '```json\n{"answer": 1}\n```\nNo, wait:\n```json\n{"answer": 2}\n```',
        'A set {a, b} and {"answer": 2} and {c}',
        '{{"answer": 2}}',
        '```python\nprint("{}")\n```\nso {"answer": 2}',
        '```json\n{"answer": 2}',
        '{\n  "answer":\t2\n}',
    ],
)
def test_an_object_is_found_in_fences_and_in_prose_the_last_one_counting(text: str) -> None:
    assert read_json_object(text) == {"answer": 2}


def test_an_object_inside_an_object_is_part_of_it() -> None:
    assert read_json_object('So {"a": {"b": {}}} then.') == {"a": {"b": {}}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the reply holds no JSON object"),
        ("The answer is 2.", "the reply holds no JSON object"),
        ("{answer: 2}", "the reply holds no JSON object"),
        ("{'answer': 2}", "the reply holds no JSON object"),
        ('{"answer": 2', "the reply holds no JSON object"),
        ("[2]", "the reply is a JSON list, not an object"),
        ('"2"', "the reply is a JSON str, not an object"),
        ("2", "the reply is a JSON int, not an object"),
        ("null", "the reply is a JSON NoneType, not an object"),
        ('```json\n["a", "b"]\n```', "the reply is a JSON list, not an object"),
        ("{" * 50_000, "the reply holds no JSON object"),
        ("[" * 50_000, "the reply holds no JSON object"),
        ('{"a":' * 10_000, "the reply holds no JSON object"),
        ("x" * (LONGEST_REPLY + 1), "the reply has 100,001 characters"),
        ('{"a": 1}' + " " * LONGEST_REPLY, "the reply has 100,008 characters"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_object_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ReplyError) as caught:
        read_json_object(text)
    assert str(caught.value) == said


@pytest.mark.parametrize("digits", [4301, 99_000])
def test_a_number_that_is_too_long_to_be_read_is_refused(digits: int) -> None:
    """Python refuses to convert integers of more than 4,300 digits, and not as a JSON error."""
    for text in ('{"answer": %s}', 'So {"answer": %s}.', "```json\n[%s]\n```"):
        with pytest.raises(ReplyError):
            read_json_object(text % ("1" * digits))


def test_a_long_reply_is_read_up_to_the_limit() -> None:
    whole = json.dumps({"a": "x" * (LONGEST_REPLY - 9)})
    assert len(whole) == LONGEST_REPLY
    assert len(read_json_object(whole)["a"]) == LONGEST_REPLY - 9


@settings(deadline=None)
@given(text=st.text(st.characters()))
def test_any_text_gives_an_object_or_a_reason(text: str) -> None:
    try:
        value: Any = read_json_object(text)
    except ReplyError as error:
        value = {"reason": str(error)}
    assert isinstance(value, dict)


@settings(deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from([*'{}[]":,\\` \n1', "```", "json", '{"a":', "null", "\\u", "\\ud800"]), max_size=40
    ),
    whole_from=st.sampled_from([None, 1, 2]),
)
def test_any_scrap_of_json_gives_an_object_or_a_reason(pieces: list[str], whole_from: int | None) -> None:
    try:
        value: Any = read_json_object("".join(pieces), whole_from=whole_from)
    except ReplyError as error:
        value = {"reason": str(error)}
    assert isinstance(value, dict)


@settings(deadline=None)
@given(value=OBJECTS, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
def test_an_object_comes_back_as_it_went_in_however_it_was_wrapped(
    value: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    for whole_from in (None, 1, 2):
        assert read_json_object(text, whole_from=whole_from) == value
        assert read_json_object(f"Here you are:\n{text}\nAnything else?", whole_from=whole_from) == value
    if "```" not in text:
        assert read_json_object(f"```json\n{text}\n```") == value


@pytest.mark.parametrize("fact", ["Prints ```{}``` first", "Serves on port ```8080```", "Has ```[1]``` cat"])
def test_a_fence_inside_a_text_of_the_reply_is_no_reply(fact: str) -> None:
    assert read_json_object(json.dumps({"facts": ["Has a cat", fact]})) == {"facts": ["Has a cat", fact]}
    assert read_json_object(json.dumps({"facts": [fact, "Has"]})[:-4], whole_from=2) == {"facts": [fact]}


@pytest.mark.parametrize(
    "half",
    ['{"fact": "Has a dog", "importance": 0.', '{"source": "user", "relation": "is allergic to", "target": "pe', "{"],
)
def test_an_object_in_a_list_that_breaks_off_is_not_read(half: str) -> None:
    assert read_json_object('{"facts": [{"fact": "Has {["}, ' + half, whole_from=2) == {"facts": [{"fact": "Has {["}]}


@pytest.mark.parametrize("half", ['["chess", "row', '{"job": "nurse", "city": "Lis', "[1, 2"])
def test_a_value_that_breaks_off_is_not_read_where_values_have_to_be_whole(half: str) -> None:
    text = '{"City": "Oslo", "Pets": ["dog"], "Hobbies": ' + half
    assert read_json_object(text, whole_from=1) == {"City": "Oslo", "Pets": ["dog"]}


@pytest.mark.parametrize("after", ["", " I hope that this helps.", "\n```"])
def test_what_stands_inside_an_object_that_is_no_json_is_no_reply(after: str) -> None:
    broken = '{"Job": "nurse", "Pets": {"dog": "Rex"},}'
    for text in (broken, f"Here it is:\n{broken}", f"```json\n  {broken}"):
        with pytest.raises(ReplyError, match="no JSON object"):
            read_json_object(text + after)
    assert read_json_object('{"Job": nurse, "a": {"b": 1}} or rather {"Job": "nurse"}' + after) == {"Job": "nurse"}


def test_a_line_break_inside_a_text_is_read() -> None:
    text = '{"City": "Rome", "Note": "first line\nsecond\tline"}'
    assert read_json_object(text) == {"City": "Rome", "Note": "first line\nsecond\tline"}
    assert read_json_object(f"So: {text} That is all.") == read_json_object(text)


@settings(deadline=None)
@given(value=OBJECTS, cut=st.integers(1, 60))
def test_of_an_object_that_breaks_off_only_what_is_whole_is_read(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)[:-cut]
    with contextlib.suppress(ReplyError):
        read = read_json_object(text, whole_from=2)
        assert [*read] == [*value][: len(read)]
        assert all(read[key] == value[key] for key in [*read][:-1])


@pytest.mark.parametrize("whole_from", [None, 1, 2])
@pytest.mark.parametrize(
    ("begin", "scrap"), [("", "{"), ("", '{"a":'), ("", '{"a": ['), ("", "```{"), ("```json", "\n")]
)
def test_the_longest_hostile_reply_is_done_with_soon(begin: str, scrap: str, whole_from: int | None) -> None:
    start = time.process_time()
    with contextlib.suppress(ReplyError):
        assert not any(
            read_json_object((begin + scrap * LONGEST_REPLY)[:LONGEST_REPLY], whole_from=whole_from).values()
        )
    assert time.process_time() - start < 10


def test_texts_stay_and_other_values_become_json() -> None:
    assert as_text('a "b"') == 'a "b"'
    assert as_text(["ä", 1, None]) == '["ä", 1, null]'
    assert as_text({"a": True}) == '{"a": true}'
    assert as_text(7) == "7"
