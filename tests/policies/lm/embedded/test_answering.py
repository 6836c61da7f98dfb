"""Questions and probes: the answer that the conversation speaks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.answering import HEED, LATEST, _heed, find_choices, find_schema
from mnemotune.policies.lm.embedded.reading import Reading

if TYPE_CHECKING:
    from .conftest import AskFor

QUESTION = (
    "Which food should I buy?\n\n"
    "Choose.\n"
    "1: Hay and carrots for your pony.\n"
    "2: Small fish for your cat.\n"
    "3: Large bones for your dog."
)
PROBE = (
    "Which food should I buy?\n\nFor each entry, choose the value that holds for me now:\n"
    '{\n"pet_kind": ["lively_pony", "old_cat", "big_dog"],\n"pet_home": ["barn", "flat", "garden"]\n}\n\nAs JSON.'
)


TALK = [*["I have a cat."] * 2, *["The rain went on."] * 7, "I have a dog."]
"""The cat was told twice, the dog last."""

# Finding


def test_numbered_lines_are_choices() -> None:
    assert find_choices("Which?\n1: a\n2: b c\n\nNow.") == ("Which?\n", ["a", "b c"])


def test_the_choices_are_those_that_count_up_from_one() -> None:
    asked = "At 9: breakfast\n7: no\n"
    assert find_choices(f"{asked}1: a\n5: no\n2: b\n3: c") == (asked, ["a", "b", "c"])


@pytest.mark.parametrize("text", ["", "Which?", "1: alone", "2: b\n3: c", "1) a\n2) b", " 1: a\n 2: b"])
def test_a_text_without_two_choices_is_no_question(text: str) -> None:
    assert find_choices(text) is None


def test_schema_lines_are_keys_with_their_values() -> None:
    assert find_schema(PROBE) == {
        "pet_kind": ("lively_pony", "old_cat", "big_dog"),
        "pet_home": ("barn", "flat", "garden"),
    }
    assert find_schema('"a": [1]\n"b": ["x", ]\n"c": "d"\n"e": ["f"] and more') == {}


# Answering


@pytest.mark.parametrize(
    ("told", "right"),
    [("I have a pony.", 1), ("I live with a cat.", 2), ("We got a dog last year.", 3)],
)
def test_the_answer_is_the_one_that_the_user_spoke_for(ask_for_json: AskFor, told: str, right: int) -> None:
    assert ask_for_json(told, "The weather is nice.", QUESTION) == {"answer": right}
    assert ask_for_json(Message("system", f"Memories:\n- {told}"), QUESTION) == {"answer": right}


def test_without_any_evidence_the_first_answer_is_chosen(ask_for_json: AskFor) -> None:
    assert ask_for_json(QUESTION) == {"answer": 1}
    assert ask_for_json("The weather is nice.", QUESTION) == {"answer": 1}


def test_a_state_is_what_was_said_last_and_advice_goes_by_what_was_said_first(ask_for_json: AskFor) -> None:
    for first, last, answer, state in (("cat", "dog", 2, "big_dog"), ("dog", "cat", 3, "old_cat")):
        talk = [f"I have a {first}.", *["The rain went on."] * 7, f"I have a {last}."]
        assert ask_for_json(*talk, QUESTION) == {"answer": answer}
        assert ask_for_json(*talk, PROBE)["pet_kind"] == state


def test_what_the_user_says_of_the_user_counts_more_than_talk_about_others(ask_for_json: AskFor) -> None:
    for talk in ("I have a cat. My sister has a dog.", "My sister has a dog. I have a cat."):
        assert ask_for_json(talk + " Bye.", QUESTION) == {"answer": 2}


def test_an_instruction_to_rely_on_the_newest_is_heeded(ask_for_json: AskFor) -> None:
    heedful = QUESTION.replace("Choose.", "Choose. Rely on what the user said most recently.")
    assert ask_for_json(*TALK, QUESTION) == {"answer": 2}, "what was said more often is louder"
    assert ask_for_json(*TALK, heedful) == {"answer": 3}


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("Rely on what the user said most recently.", 3),
        ("- user: Rely on what I said most recently.", 2),
        ("Be kind.", 2),
    ],
)
def test_the_system_prompt_asks_for_the_newest_and_a_memory_does_not(
    ask_for_json: AskFor, line: str, right: int
) -> None:
    assert ask_for_json(Message("system", line), *TALK, QUESTION) == {"answer": right}


@pytest.mark.parametrize(
    ("line", "voice"),
    [
        ("Rely on what the user said of themselves.", HEED),
        ("- user: My friends only speak of themselves.", 1.0),
        ("Be kind.", 1.0),
    ],
)
def test_the_system_prompt_asks_for_the_users_own_words_and_a_memory_does_not(line: str, voice: float) -> None:
    plain = Reading()
    heeded = _heed("Which food?", f"You are kind.\n{line}\nGood.", plain)
    assert heeded.voice == pytest.approx(voice * plain.voice)
    assert heeded.forgetting == plain.forgetting


@pytest.mark.parametrize(
    "line",
    [
        "Rely on what the user said of themselves, not on talk about other people.",
        "Go by the user's own account, and ignore what is said of other people.",
        "What other people do is irrelevant: the user's own situation counts.",
        "Leave other people out of account.",
    ],
)
def test_the_users_own_words_can_be_asked_for_in_other_words_and_negated(line: str) -> None:
    plain = Reading()
    assert _heed(f"Which food?\n\n{line}", "", plain).voice == pytest.approx(HEED * plain.voice)
    assert _heed("Which food?\n\nConsider other people, too.", "", plain).voice == pytest.approx(plain.voice / HEED)


@pytest.mark.parametrize(
    "line",
    [
        "Rely on what the user said most recently; it replaces what was said before.",
        "Where statements differ, trust the latest one.",
        "Prefer recent statements over older ones.",
        "Old statements no longer count.",
    ],
)
def test_the_newest_can_be_asked_for_in_other_words_and_negated(line: str) -> None:
    plain = Reading()
    assert _heed(f"Which food?\n\n{line}", "", plain).forgetting == pytest.approx(plain.forgetting + LATEST)
    turned = _heed("Which food?\n\nDo not rely on the latest statement.", "", plain)
    assert turned.forgetting == pytest.approx(plain.forgetting - LATEST)


@pytest.mark.parametrize(
    ("system", "power"),
    [
        ("Use what you remember about the user.\nMemories:\n- I own a cat.", 1),
        ("Base your answer on the notes.\n- I own a cat.", 1),
        ("Do not use the memories.\n- I own a cat.", -1),
        ("You are a helpful assistant with a memory.\nMemories:\n- I own a cat.", 0),
        ("Memories of the user, oldest first:\n- I use my memories.", 0),
        ("", 0),
    ],
)
def test_memories_are_read_closely_where_they_are_to_be_used_and_the_word_alone_does_nothing(
    system: str, power: int
) -> None:
    plain = Reading()
    assert _heed("Which food?", system, plain).sharpness == pytest.approx(plain.sharpness * plain.focus**power)


def test_the_users_question_is_no_instruction() -> None:
    asked = "I rely on the newest statements of my bank. Should I trust the latest statement?"
    assert _heed(f"{asked}\n\nChoose.", "", Reading()) == Reading()
    heeded = _heed(f"Trust the latest statement.\n{asked}\n\nChoose.", "", Reading())
    assert heeded.forgetting > Reading().forgetting


def test_a_state_that_is_given_needs_no_searching(ask_for_json: AskFor) -> None:
    given = QUESTION.replace("Choose.", '{\n  "pet_kind": "old_cat"\n}\nChoose.')
    assert ask_for_json("I have a dog.", "I have a dog.", given) == {"answer": 2}


def test_each_given_state_counts_alike(ask_for_json: AskFor) -> None:
    prompt = (
        'Which food?\n\n{\n  "kind": "cat",\n  "home": "garden"\n}\n\n'
        "1: For a cat, cat, cat and cat again in a flat.\n2: For a cat in the garden.\n3: For a dog in the garden."
    )
    assert ask_for_json(prompt) == {"answer": 2}


def test_a_probe_is_answered_for_each_key_by_what_was_said(ask_for_json: AskFor) -> None:
    talk = ["I have an old cat.", "We live in a flat.", "The weather is nice."]
    assert ask_for_json(*talk, PROBE) == {"pet_kind": "old_cat", "pet_home": "flat"}
    assert ask_for_json(PROBE) == {"pet_kind": "lively_pony", "pet_home": "barn"}


def test_a_distractor_in_between_can_mislead(ask_for_json: AskFor) -> None:
    """The model forgets by competition: enough later talk about the same drowns what was said once."""
    talk = ["I have a cat.", *["I saw a dog in the park. The dog chased large bones."] * 30]
    assert ask_for_json(*talk, QUESTION) == {"answer": 3}
