"""Instructions are compared by meaning with what the model can do.

Invariants:

1. A paraphrase of an instruction has its sign, and its negation the opposite one or none.
2. Strengths stay within bounds, whatever the text.
3. Where the lines of a sentence break does not matter.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm.embedded.classifier import POLES
from mnemotune.policies.lm.embedded.instructions import (
    WORDS_PER_BRIEF_NOTE,
    WORDS_PER_FULL_NOTE,
    WORDS_PER_NOTE,
    read_instructions,
)
from mnemotune.policies.lm.embedded.meaning import ABILITIES, limits_labels, sense_of
from mnemotune.policies.lm.embedded.strengths import FELT, NEUTRAL, strengths_of
from mnemotune.policies.prompts import Templates

FOLDER = Path(__file__).parent
FRAMES = yaml.safe_load((FOLDER / "instruction_frames.yaml").read_text(encoding="utf-8"))
HELD_BACK_SHARE = 0.92
"""Share of the instructions that nobody looked at which have to be read right."""


def listed(name: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a file, each after what it asks for."""
    kinds: Mapping[str, list[str]] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return ((kind, text) for kind, texts in kinds.items() for text in texts)


def is_right(kind: str, text: str) -> bool:
    """Tell whether an instruction has the sign of what it asks for (invariant 1)."""
    if kind == "nothing":
        return all(abs(strength) <= NEUTRAL for strength in strengths_of(text).values())
    ability, pole = POLES[kind.removeprefix("not ")]
    strength = strengths_of(text)[ability] * pole
    if ability == "length":  # a limit in numbers counts as well
        words = read_instructions(text).words_per_note
        strength = pole * float((words > WORDS_PER_NOTE) - (words < WORDS_PER_NOTE))
    return strength <= NEUTRAL if kind.startswith("not ") else strength >= FELT


@pytest.mark.parametrize(("kind", "text"), [*listed("instructions.yaml")])
def test_an_instruction_is_understood_in_other_words_and_its_negation_too_invariant_1(kind: str, text: str) -> None:
    assert is_right(kind, text), strengths_of(text)


def test_most_instructions_that_nobody_looked_at_are_understood_invariant_1() -> None:
    held_back = list(listed("instructions_held_back.yaml"))
    assert len(held_back) >= 800
    assert sum(is_right(kind, text) for kind, text in held_back) >= HELD_BACK_SHARE * len(held_back)


def test_no_instruction_is_both_looked_at_and_held_back() -> None:
    assert not set(listed("instructions.yaml")) & set(listed("instructions_held_back.yaml"))


@given(instruction=st.sampled_from([text for _, text in listed("instructions.yaml")]), width=st.integers(8, 80))
def test_an_instruction_means_the_same_wherever_its_lines_break_invariant_3(instruction: str, width: int) -> None:
    lines = textwrap.fill(instruction, width, break_long_words=False, break_on_hyphens=False)
    assume(not re.search(r":\n|\n[^a-z0-9]", lines))  # there another sentence or a list begins
    assert strengths_of(lines) == strengths_of(instruction)
    assert read_instructions(lines).words_per_note == read_instructions(instruction).words_per_note


# Orders in sentences


def misread(frame: str, *, is_asked: bool) -> list[str]:
    """Return the sentences that hold each of the orders in a frame and are misread."""
    wrong = []
    for ability, pole, order, doing in FRAMES["orders"]:
        sentence = frame.format(order=order, doing=doing)
        strength = pole * strengths_of(sentence[0].upper() + sentence[1:])[ability]
        if (is_asked and strength < FELT) or (not is_asked and strength > NEUTRAL):
            wrong.append(sentence)
    return wrong


@pytest.mark.parametrize("frame", FRAMES["asking"])
def test_an_order_is_one_in_whatever_sentence_it_stands(frame: str) -> None:
    assert not misread(frame, is_asked=True)


@pytest.mark.parametrize("frame", FRAMES["forbidding"])
def test_an_order_is_turned_round_by_a_sentence_that_forbids_it(frame: str) -> None:
    assert not misread(frame, is_asked=False)


@pytest.mark.parametrize("frame", FRAMES["asking_twice_turned"])
def test_an_order_that_is_turned_round_twice_is_one(frame: str) -> None:
    assert not misread(frame, is_asked=True)


# Turned round


@pytest.mark.parametrize(
    ("text", "negated", "ability"),
    [
        ("Be brief.", "Do not be brief.", "length"),
        ("Keep every detail.", "Leave out every detail.", "length"),
        ("Add the date.", "Never add the date.", "dated"),
        ("Overwrite old notes.", "Don't overwrite old notes.", "replace"),
        ("Leave out other people.", "Do not leave out other people.", "own"),
        ("Note the assistant's advice.", "Ignore the assistant's advice.", "speakers"),
        ("Use separate labels.", "Do not use separate labels.", "labels"),
        ("Trust the latest statement.", "Do not trust the latest statement.", "newest"),
        ("Use the memories.", "Avoid using the memories.", "memories"),
    ],
)
def test_a_negation_turns_an_instruction_round(text: str, negated: str, ability: str) -> None:
    assert strengths_of(negated)[ability] == pytest.approx(-strengths_of(text)[ability])


def test_two_negations_cancel_out() -> None:
    assert strengths_of("Do not leave out details.") == strengths_of("Keep details.")
    assert strengths_of("Never omit the date.")["dated"] > 0
    assert strengths_of("Not without details.")["length"] > 0


def test_a_negation_ends_where_another_order_begins() -> None:
    for text in ("Do not add dates, but keep details.", "Don't add dates and keep details.", "No dates; keep details."):
        strengths = strengths_of(text)
        assert strengths["dated"] < 0 < strengths["length"], text


def test_a_negation_goes_on_through_a_list() -> None:
    strengths = strengths_of("Do not note dates, details or other people.")
    assert strengths["dated"] < 0
    assert strengths["length"] < 0
    assert strengths["own"] > 0


@pytest.mark.parametrize("text", ["Never omit or shorten details.", "Do not drop, abridge or leave out details."])
def test_acts_of_one_order_are_turned_together(text: str) -> None:
    assert strengths_of(text)["length"] > FELT


def test_nor_goes_on_with_what_is_turned() -> None:
    strengths = strengths_of("Add neither the date nor details.")
    assert strengths["dated"] < -FELT
    assert strengths["length"] < -FELT


def test_what_is_avoided_as_unwanted_is_turned_once() -> None:
    assert strengths_of("Avoid clutter and long notes.")["length"] < -FELT


def test_a_negation_turns_what_is_named_behind_a_colon_or_an_aside() -> None:
    for text in ("Exclude: dates.", "Never, ever add dates.", "Do not, please, add dates."):
        assert strengths_of(text)["dated"] < -FELT, text


def test_what_is_done_with_a_thing_is_no_thing() -> None:
    assert {name for name, strength in strengths_of("Dates are not to be recorded.").items() if strength} == {"dated"}


def test_an_order_that_points_back_to_its_condition_is_about_what_is_named_there() -> None:
    assert strengths_of("If something concerns other people, leave it out.")["own"] > FELT
    (sense,) = sense_of("If something concerns other people, leave.")
    assert "own" not in sense.strengths


@pytest.mark.parametrize(
    "text",
    [
        "Details instead of keywords.",
        "Not keywords but details.",
        "Prefer details to keywords.",
        "Details, no keywords.",
    ],
)
def test_a_contrast_asks_for_the_one_and_against_the_other(text: str) -> None:
    assert strengths_of(text)["length"] > strengths_of("Keep details.")["length"]


def test_not_only_is_no_negation() -> None:
    assert strengths_of("Note not only the gist but details.")["length"] >= 0


# Degrees


def test_an_instruction_has_degrees() -> None:
    texts = ("Be very brief.", "Be brief.", "Be a little brief.", "", "Be somewhat detailed.", "Be detailed.")
    lengths = [read_instructions(text).words_per_note for text in texts]
    assert lengths == sorted(set(lengths))
    assert lengths[1] == WORDS_PER_BRIEF_NOTE
    assert lengths[3] == WORDS_PER_NOTE
    assert lengths[5] == WORDS_PER_FULL_NOTE


def test_what_there_is_no_need_for_is_less_than_forbidden() -> None:
    forbidden, needless = (strengths_of(f"{words} be brief.")["length"] for words in ("Do not", "There is no need to"))
    assert 0 < needless < forbidden


def test_what_is_said_twice_counts_more_and_contradictions_cancel_out() -> None:
    once, twice = strengths_of("Be brief."), strengths_of("Be brief. Keep it short.")
    assert twice["length"] < once["length"]
    assert strengths_of("Be brief. Be detailed.")["length"] == 0


def test_a_condition_asks_for_nothing_and_makes_what_it_leads_to_weaker() -> None:
    assert strengths_of("If short, note it.")["length"] == 0
    conditional = strengths_of("When it matters, keep every detail.")["length"]
    assert 0 < conditional < strengths_of("Keep every detail.")["length"]


# What asks for nothing


@pytest.mark.parametrize("word", ["memory", "memories", "Memory", "remember"])
def test_a_single_word_is_worth_nothing(word: str) -> None:
    for text in (word, f"{word}:", f"This is about {word}.", f"You are an assistant with {word}."):
        assert not any(strengths_of(text).values()), text


def test_what_a_reply_may_hold_is_no_wish_but_for_its_length() -> None:
    strengths = strengths_of("Return a JSON object with the labels to add or to overwrite, each with a short text.")
    assert {name for name, strength in strengths.items() if strength} == {"length"}


def test_labels_that_are_added_ask_for_no_length() -> None:
    assert not any(strengths_of("Output a JSON object that maps each label to be added to its text.").values())
    assert strengths_of("Add more words.")["length"] > 0


def test_the_events_of_a_merge_are_no_wish() -> None:
    assert not any(strengths_of(Templates.bundled().merge).values())


@pytest.mark.parametrize(
    ("kind", "words"),
    [("write_facts", 13), ("write_facts_medium", 13), ("write_profile", 13), ("write_profile_minimal", 13)],
)
def test_the_bundled_write_prompts_ask_for_a_length_and_nothing_else(kind: str, words: int) -> None:
    instructions = read_instructions(Templates.bundled().starting(kind))
    assert instructions.words_per_note == words
    assert (instructions.dated, instructions.appends, instructions.separate) == (False, False, False)
    assert (instructions.own, instructions.speakers, instructions.replaces) == (0, 0, 0)


def test_the_bundled_types_of_information_are_kinds_and_no_orders() -> None:
    texts = Templates.bundled()
    kinds = read_instructions(texts.starting("write_profile")).kinds
    assert [kind.text for kind in kinds] == [line.split(". ", 1)[1] for line in texts.info_types.splitlines()]


def test_the_bundled_reply_prompts_ask_for_the_memories_and_the_answer_prompts_for_nothing() -> None:
    texts = Templates.bundled()
    asked = {name: strength for name, strength in strengths_of(texts.reply_context).items() if strength}
    assert asked == {"memories": pytest.approx(1)}
    assert not any(strengths_of(texts.answer).values())
    assert not any(strengths_of(texts.answer_reworded).values())


# Reading a sentence


@pytest.mark.parametrize(
    ("sentence", "matters"),
    [
        ("Focus on work and money.", {"work": 1, "money": 1}),
        ("Remember hobbies, pets and travel plans.", {"hobbies": 1, "pets": 1, "travel plans": 1}),
        ("Ignore the weather.", {"weather": -1}),
        ("Do not note anything about sports.", {"sports": -1}),
        ("Note all about health except medication.", {"health": 1, "medication": -1}),
        ("Focus on money rather than on hobbies.", {"money": 1, "hobbies": -1}),
        ("Politics should not be noted.", {"politics": -1}),
        ("If it concerns politics, leave it out.", {"concerns politics": -1}),
        ("Return JSON about sports.", {}),
        ("Be brief.", {}),
    ],
)
def test_what_is_to_be_noted_or_not_is_what_no_instruction_is_made_of(sentence: str, matters: dict[str, int]) -> None:
    (sense,) = sense_of(sentence)
    assert {words: (wanted > 0) - (wanted < 0) for words, wanted in sense.matters} == matters


@pytest.mark.parametrize(
    ("sentence", "limits"),
    [
        ("Use only these labels:", True),
        ("Stick to the labels below:", True),
        ("File everything under one of these headings, and no other:", True),
        ("Allowed labels:", True),
        ("Use clear labels:", False),
        ("Note only the following:", False),
    ],
)
def test_a_sentence_can_allow_some_labels_and_no_others(sentence: str, limits: bool) -> None:
    assert limits_labels(sentence) == limits


PIECES = [
    "not ",
    "never ",
    "details",
    "brief",
    ", ",
    "; ",
    "no need to ",
    "leave ",
    " out",
    "too ",
    "instead of ",
    "\n",
    "- ",
]


@settings(deadline=None)
@given(text=st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=12).map("".join) | st.text())
def test_any_text_has_strengths_within_bounds_invariant_2(text: str) -> None:
    strengths = strengths_of(text)
    assert strengths.keys() == set(ABILITIES)
    assert all(abs(strength) <= 1.32 for strength in strengths.values())
    assert 1 <= read_instructions(text).words_per_note < 100
