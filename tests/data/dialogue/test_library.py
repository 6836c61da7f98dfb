"""The hand-written library.

Invariants:

1. A line gives away the one value that it belongs to, and no other line holds it.
2. Talk, requests and questions give nothing away.
3. Advice suits one value and does not name it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from mnemotune.data.dialogue.library import Topic, ValueTexts, Variable, load_library
from mnemotune.policies.text import stems

LIBRARY = load_library()


def variables() -> Iterator[tuple[str, Variable]]:
    for topic in LIBRARY.values():
        yield from topic.variables.items()


def values() -> Iterator[tuple[str, str, ValueTexts]]:
    for info, variable in variables():
        for value, texts in variable.values.items():
            yield info, value, texts


STATEMENTS = [line for *_, texts in values() for line in texts.statements]
ADVICE = [line for *_, texts in values() for line in texts.advice]
HARMLESS = [
    *(line for _, variable in variables() for line in variable.ask),
    *(line for topic in LIBRARY.values() for line in topic.chat),
    *(line for topic in LIBRARY.values() for pair in topic.questions for line in pair.ask),
]


def test_there_are_thirty_topics_and_more_than_a_hundred_states() -> None:
    assert len(LIBRARY) == 30
    assert len(list(variables())) >= 100
    assert all(name == topic.topic for name, topic in LIBRARY.items())
    assert list(LIBRARY) == sorted(LIBRARY)


def test_a_state_has_a_name_of_its_own_and_three_values() -> None:
    names = [info for info, _ in variables()]
    assert len(set(names)) == len(names)
    assert {len(variable.values) for _, variable in variables()} == {3}


def test_each_value_has_several_ways_to_say_it_to_change_to_it_and_to_advise() -> None:
    for info, value, texts in values():
        assert min(len(texts.say), len(texts.change), len(texts.advice)) >= 3, (info, value)
        assert texts.statements == texts.say + texts.change


def test_no_line_is_written_twice() -> None:
    counts = Counter(" ".join(line.lower().split()) for line in [*STATEMENTS, *ADVICE, *HARMLESS])
    assert [line for line, count in counts.items() if count > 1] == []


def test_no_statement_is_part_of_any_other_line() -> None:
    everything = "\n".join([*STATEMENTS, *ADVICE, *HARMLESS])
    assert [line for line in STATEMENTS if everything.count(line) != 1] == []


def test_advice_does_not_name_the_value_that_it_suits() -> None:
    named = [
        (value, line)
        for _, value, texts in values()
        for line in texts.advice
        if " ".join(stems(value)) in " ".join(stems(line))
    ]
    assert named == []


def test_advice_reflects_its_value_in_its_words() -> None:
    """Without a word in common nobody could tell which advice suits whom."""
    mute = []
    for info, value, texts in values():
        told = {stem for line in texts.statements for stem in stems(line)}
        mute += [(info, value, line) for line in texts.advice if not told & set(stems(line))]
    assert mute == []


def named_in(line: str) -> list[str]:
    """Return the values whose names a line holds, word by word."""
    words = f" {' '.join(stems(line))} "
    return [value for _, value, _ in values() if len(stems(value)) > 1 and f" {' '.join(stems(value))} " in words]


def test_no_request_and_no_question_names_a_value() -> None:
    asked = [line for line in HARMLESS if line.endswith("?")]
    assert len(asked) > 600
    assert [(line, named_in(line)) for line in asked if named_in(line)] == []


def test_talk_that_names_a_value_is_about_somebody_else() -> None:
    talk = [line for topic in LIBRARY.values() for line in topic.chat]
    assert [line for line in talk if named_in(line) and re.search(r"\b(I|me|myself)\b", line)] == []


def test_every_topic_has_talk_that_names_one_of_its_values_to_distract_the_reader() -> None:
    mute = [topic.topic for topic in LIBRARY.values() if not any(map(named_in, topic.chat))]
    assert len(mute) <= len(LIBRARY) // 2


def test_a_question_is_about_two_states_of_its_topic() -> None:
    for topic in LIBRARY.values():
        pairs = [pair.about for pair in topic.questions]
        assert len({frozenset(about) for about in pairs}) == len(pairs), topic.topic
        for about in pairs:
            assert len(set(about)) == 2
            assert set(about) <= topic.variables.keys(), topic.topic


def test_each_state_can_be_asked_about() -> None:
    for topic in LIBRARY.values():
        assert {info for pair in topic.questions for info in pair.about} == topic.variables.keys()


def test_requests_are_questions_and_statements_are_not() -> None:
    asked = [line for _, variable in variables() for line in variable.ask]
    asked += [line for topic in LIBRARY.values() for pair in topic.questions for line in pair.ask]
    assert [line for line in asked if not line.endswith("?")] == []
    assert [line for line in [*STATEMENTS, *ADVICE] if line.endswith("?")] == []


def test_lines_are_whole_sentences_on_one_line() -> None:
    untidy = [
        line
        for line in [*STATEMENTS, *ADVICE, *HARMLESS]
        if line != " ".join(line.split()) or line[-1] not in ".!?" or not (line[0].isupper() or line[0].isdigit())
    ]
    assert untidy == []


def test_the_library_is_read_once() -> None:
    assert load_library() is load_library()


# What a topic must have


@pytest.fixture
def topic() -> dict[str, Any]:
    lines = {"say": ["I swim."], "change": ["I swim now."], "advice": ["Bring a towel."]}
    variable = {"values": {"pool": lines, "lake": lines}, "ask": ["Where to?"]}
    return {
        "topic": "swimming",
        "variables": {"place": variable, "time": variable},
        "questions": [{"about": ["place", "time"], "ask": ["What to pack?"]}],
        "chat": ["The water was cold."],
    }


def test_a_topic_is_read_as_it_is_written(topic: dict[str, Any]) -> None:
    read = Topic.model_validate(topic)
    assert read.variables["place"].values["pool"].statements == ("I swim.", "I swim now.")
    assert read.questions[0].about == ("place", "time")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("chat", []),
        ("questions", []),
        ("questions", [{"about": ["place"], "ask": ["What?"]}]),
        ("questions", [{"about": ["place", "time"], "ask": []}]),
        ("variables", {"place": {"values": {}, "ask": ["Where to?"]}}),
        ("colour", "blue"),
    ],
)
def test_a_topic_that_lacks_something_is_refused(topic: dict[str, Any], part: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=part):
        Topic.model_validate(topic | {part: value})
