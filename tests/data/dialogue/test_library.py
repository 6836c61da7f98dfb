"""The hand-written library.

Invariants:

1. A telling gives away the one value that it belongs to, and no other line holds it.
2. Talk, requests and questions give nothing away.
3. Advice suits one value and does not name it.
4. What one phrasing says, the other does not.
5. Words are shared as on AMemGym's real users: enough to find and to read, and no more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from statistics import mean
from typing import Any

import pytest
from pydantic import ValidationError

from mnemotune.data.dialogue.library import Tellings, Topic, ValueTexts, Variable, load_library
from mnemotune.policies.text import sentences, stems

LIBRARY = load_library()
LIKE_REAL = 0.05
"""How far a share may be from that of the real sample."""


def variables() -> Iterator[tuple[str, Variable]]:
    for topic in LIBRARY.values():
        yield from topic.variables.items()


def values() -> Iterator[tuple[str, str, ValueTexts]]:
    for info, variable in variables():
        for value, texts in variable.values.items():
            yield info, value, texts


def tellings() -> Iterator[Tellings]:
    for *_, texts in values():
        yield from (texts.a, texts.b)


STATEMENTS = [line for *_, texts in values() for line in texts.statements]
ADVICE = [line for *_, texts in values() for line in texts.advice]
REQUESTS = [line for _, variable in variables() for line in variable.ask.a + variable.ask.b]
QUESTIONS = [line for topic in LIBRARY.values() for pair in topic.questions for line in pair.ask.a + pair.ask.b]
TALK = [line for topic in LIBRARY.values() for line in topic.chat.a + topic.chat.b]
HARMLESS = [*REQUESTS, *QUESTIONS, *TALK]


def alike(line: str, other: str) -> int:
    """Return the number of stems that two lines share."""
    return len({*stems(line)} & {*stems(other)})


def test_there_are_thirty_topics_and_more_than_a_hundred_states() -> None:
    assert len(LIBRARY) == 30
    assert len(list(variables())) >= 100
    assert all(name == topic.topic for name, topic in LIBRARY.items())
    assert list(LIBRARY) == sorted(LIBRARY)


def test_a_state_has_a_name_of_its_own_and_three_values() -> None:
    names = [info for info, _ in variables()]
    assert len(set(names)) == len(names)
    assert {len(variable.values) for _, variable in variables()} == {3}


def test_each_value_is_told_in_both_phrasings_and_has_several_pieces_of_advice() -> None:
    for told in tellings():
        assert [len(told.asked), len(told.stated), len(told.change_asked), len(told.change_stated)] == [3, 1, 2, 1]
        assert told.every == told.asked + told.stated + told.change_asked + told.change_stated
    for info, value, texts in values():
        assert len(texts.advice) == 3, (info, value)
        assert texts.statements == texts.a.every + texts.b.every
        assert (texts.tellings("a"), texts.tellings("b")) == (texts.a, texts.b)


def test_no_sentence_of_a_phrasing_is_in_the_other() -> None:
    def said(phrasing: Any) -> set[str]:
        lines = [line for *_, texts in values() for line in texts.tellings(phrasing).every]
        lines += [line for _, variable in variables() for line in variable.ask.lines(phrasing)]
        for topic in LIBRARY.values():
            lines += [*topic.chat.lines(phrasing), *(q for pair in topic.questions for q in pair.ask.lines(phrasing))]
        return {sentence.lower() for line in lines for sentence in sentences(line)}

    assert len(said("a")) > 2000
    assert said("a") & said("b") == set()


# Words in common, beside the real sample


def test_tellings_share_words_with_their_values_as_real_ones_do() -> None:
    told = [(line, value) for _, value, texts in values() for line in texts.statements]
    assert mean(alike(*pair) > 0 for pair in told) == pytest.approx(0.825, abs=LIKE_REAL)
    assert mean(alike(line, value) / len({*stems(value)}) for line, value in told) < 0.55


def test_advice_shares_words_with_its_value_as_real_answers_do() -> None:
    given = [(line, value) for _, value, texts in values() for line in texts.advice]
    assert mean(alike(*pair) > 0 for pair in given) == pytest.approx(0.703, abs=LIKE_REAL)


def test_a_telling_shares_more_words_with_the_advice_that_suits_than_with_any_other() -> None:
    leads = []
    for _, variable in variables():
        for value, texts in variable.values.items():
            rivals = [line for other, each in variable.values.items() if other != value for line in each.advice]
            for line, own, rival in product(texts.statements, texts.advice, rivals):
                leads.append(alike(line, own) > alike(line, rival))
    assert mean(leads) > 0.93


@pytest.mark.parametrize("phrasing", ["a", "b"])
def test_a_question_shares_words_with_the_messages_that_answer_it(phrasing: Any) -> None:
    shared = [
        alike(question, line)
        for topic in LIBRARY.values()
        for pair in topic.questions
        for info in pair.about
        for texts in topic.variables[info].values.values()
        for question, line in product(pair.ask.lines(phrasing), texts.tellings(phrasing).every)
    ]
    assert 1.9 < mean(shared) < 2.9
    assert mean(not count for count in shared) < 0.05


# What lines are


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


def named_in(line: str) -> list[str]:
    """Return the values whose names a line holds, word by word."""
    words = f" {' '.join(stems(line))} "
    return [value for _, value, _ in values() if len(stems(value)) > 1 and f" {' '.join(stems(value))} " in words]


def test_no_request_and_no_question_names_a_value() -> None:
    asked = [line for line in HARMLESS if line.endswith("?")]
    assert len(asked) > 600
    assert [(line, named_in(line)) for line in asked if named_in(line)] == []


def test_talk_that_names_a_value_is_about_somebody_else() -> None:
    assert [line for line in TALK if named_in(line) and re.search(r"\b(I|me|myself)\b", line)] == []


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


def test_requests_ask_and_statements_do_not() -> None:
    asked = [line for told in tellings() for line in told.asked + told.change_asked]
    stated = [line for told in tellings() for line in told.stated + told.change_stated]
    assert [line for line in [*REQUESTS, *QUESTIONS] if not line.endswith("?")] == []
    assert [line for line in asked if "?" not in line] == []
    assert [line for line in [*stated, *ADVICE, *TALK] if "?" in line] == []


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
    told = {"asked": ["Is the pool warm?"], "stated": ["I swim."]}
    told |= {"change_asked": ["Now that I swim, what next?"], "change_stated": ["I swim now."]}
    texts = {"a": told, "b": told, "advice": ["Bring a towel."]}
    variable = {"values": {"pool": texts, "lake": texts}, "ask": {"a": ["Where to?"], "b": ["Where?"]}}
    return {
        "topic": "swimming",
        "variables": {"place": variable, "time": variable},
        "questions": [{"about": ["place", "time"], "ask": {"a": ["What to pack?"], "b": ["What to bring?"]}}],
        "chat": {"a": ["The water was cold."], "b": ["It rained."]},
    }


def test_a_topic_is_read_as_it_is_written(topic: dict[str, Any]) -> None:
    read = Topic.model_validate(topic)
    assert read.variables["place"].values["pool"].a.every[:2] == ("Is the pool warm?", "I swim.")
    assert read.variables["place"].ask.lines("b") == ("Where?",)
    assert read.questions[0].about == ("place", "time")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("chat", {"a": [], "b": ["It rained."]}),
        ("chat", {"a": ["It rained."]}),
        ("questions", []),
        ("questions", [{"about": ["place"], "ask": ["What?"]}]),
        ("questions", [{"about": ["place", "time"], "ask": {"a": [], "b": []}}]),
        ("variables", {"place": {"values": {}, "ask": {"a": ["Where?"], "b": ["Where to?"]}}}),
        ("colour", "blue"),
    ],
)
def test_a_topic_that_lacks_something_is_refused(topic: dict[str, Any], part: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=part):
        Topic.model_validate(topic | {part: value})
