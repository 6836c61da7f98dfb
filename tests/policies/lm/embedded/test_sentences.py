"""What the reader sees: sentences, voices, days."""

from __future__ import annotations

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.reading import read_messages
from mnemotune.policies.lm.embedded.sentences import (
    ASKS,
    NOBODY,
    OTHER,
    OWN,
    about_self,
    affirmed,
    message_sentences,
    read_state_lines,
    tells_change,
    words_of,
)


def test_messages_are_read_as_sentences_in_order_each_with_its_voice() -> None:
    talk = [
        Message(
            "user",
            "[Current Time: 2021-01-01 20:00:00]\nI own a cat. My sister is a vet. It rained. "
            "Which food? Which for me?",
        ),
        Message("assistant", "I would ask your sister."),
    ]
    assert [(sentence.text, sentence.voice) for sentence in read_messages(talk).sentences] == [
        ("I own a cat.", OWN),
        ("My sister is a vet.", NOBODY),
        ("It rained.", OTHER),
        ("Which food?", OTHER),
        ("Which for me?", ASKS),
        ("I would ask your sister.", NOBODY),
    ]


def test_what_was_said_on_a_day_carries_it() -> None:
    (said,) = message_sentences("user", "[Current Time: 2021-01-02 20:00:00]\nI own a cat.")
    assert said.day == "2021-01-02"
    (undated,) = message_sentences("user", "I own a cat.")
    assert undated.day == ""


def test_listed_notes_are_the_users_words_and_their_quoted_talk_has_a_quarter_of_that_voice() -> None:
    listed = Message("system", "Memories:\n- user: I own a cat.\n- assistant: I see a cat.\n- home: I live in a flat.")
    assert [(sentence.text, sentence.voice) for sentence in read_messages([listed]).sentences] == [
        ("Memories:", OTHER),
        ("I own a cat.", OTHER),
        ("I see a cat.", NOBODY),
        ("home: I live in a flat.", OWN),
    ]


def test_listed_notes_of_the_user_in_the_third_person_are_read_as_in_the_first() -> None:
    listed = Message("system", "- user owns a cat\n- The user's flat is small\n- user's sister is a vet\n- users vary")
    assert [s.voice for s in read_messages([listed]).sentences] == [OWN, OWN, NOBODY, OTHER]


def test_the_time_of_a_listed_message_is_no_sentence() -> None:
    listed = "- user: [Current Time: 2021-01-02 20:00:00]\nI own a cat.\n- I own a dog. (2022-02-03)"
    assert [(s.text, s.day) for s in message_sentences("system", listed)] == [
        ("I own a cat.", ""),
        ("I own a dog.", "2022-02-03"),
    ]


def test_state_lines_are_statements_of_the_user_by_their_values() -> None:
    given = '{\n  "pet_kind": "old_cat",\n  "home": "small flat"\n}\nWhich "food": ["a"]?'
    lines = list(read_state_lines(given))
    assert [line.said.plain for line in lines] == [frozenset({"old", "cat"}), frozenset({"small", "flat"})]
    assert all(line.voice == OWN for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "I own a cat.",
        "We live in a flat.",
        "My budget is 200 dollars.",
        "It's all mine.",
        "My old car broke, so I walk.",
    ],
)
def test_a_statement_in_the_first_person_is_about_the_speaker(text: str) -> None:
    assert about_self(text)


@pytest.mark.parametrize(
    "text",
    [
        "My sister swims every day.",
        "A friend of mine owns a boat.",
        "One of my old friends moved to Rome.",
        "He told me about it.",
        "The weather is nice.",
        "Should I buy a boat?",
        "At home my brother always cooks.",
    ],
)
def test_a_statement_about_somebody_else_and_a_question_are_not(text: str) -> None:
    assert not about_self(text)


# What is no more


@pytest.mark.parametrize(
    ("text", "held", "gone"),
    [
        ("I no longer cycle, so I take the tram.", "tram", "cycle"),
        ("I switched from coffee to tea.", "tea", "coffee"),
        ("I'm writing by hand instead of typing.", "hand", "typing"),
        ("We used to live in Rome, but Paris is home now.", "paris", "rome"),
        ("Rather than the gym, I choose the lake.", "lake", "gym"),
        ("I stopped eating meat and cheese.", "", "meat"),
        ("I see more of clubs compared to family gatherings.", "clubs", "gatherings"),
    ],
)
def test_what_a_sentence_denies_is_left_out(text: str, held: str, gone: str) -> None:
    words = affirmed(text).lower()
    assert held in words
    assert gone not in words


def test_a_sentence_that_denies_everything_is_read_all_the_same() -> None:
    (said,) = message_sentences("user", "No longer cycling.")
    assert said.said.plain


@pytest.mark.parametrize("text", ["I've switched to tea.", "These days I swim.", "I no longer run.", "I swim now."])
def test_a_sentence_can_tell_that_something_has_changed(text: str) -> None:
    assert tells_change(text)
    assert not tells_change("I own a cat.")


def test_a_text_is_its_words_its_kin_and_its_numbers() -> None:
    words = words_of("A cheap flat of 50 square feet")
    assert {"cheap", "flat", "50"} <= words.plain
    assert "\u2248budget_low" in words.kin
    assert [(q.low, q.unit) for q in words.quantities] == [(50, "square feet")]
    assert words.all == words.plain | words.kin
    assert len(words.codes) == len(words.all)
