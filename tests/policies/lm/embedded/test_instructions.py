"""What a prompt asks for as a whole: its kinds of information, and its rules."""

from __future__ import annotations

import pytest

from mnemotune.policies.lm.embedded.instructions import (
    PASSING,
    WORDS_PER_BRIEF_NOTE,
    WORDS_PER_NOTE,
    read_instructions,
    read_labels,
    slug,
)
from mnemotune.policies.lm.embedded.sentences import words_of


def kinds(text: str) -> dict[str, float]:
    return {kind.text: kind.wanted for kind in read_instructions(text).kinds}


# Kinds


def test_the_items_of_a_list_are_kinds() -> None:
    assert kinds("Note:\n- pets: dogs, cats\n- the user's health") == {"pets: dogs, cats": 1, "the user's health": 1}


@pytest.mark.parametrize(
    "heading", ["Do not note:", "Leave out the following:", "Ignore what is said about:", "Never write down:"]
)
def test_the_items_of_a_list_of_what_is_not_wanted_are_to_be_left_out(heading: str) -> None:
    assert kinds(f"{heading}\n- weather\n- parrots") == {"weather": -1, "parrots": -1}


def test_an_item_can_say_that_it_is_not_wanted() -> None:
    assert kinds("Note:\n- pets\n- no weather") == {"pets": 1, "no weather": -1}


def test_kinds_are_named_in_sentences_too_but_only_those_that_words_are_known_for() -> None:
    assert kinds("Note what is said about cats, sleep and zorples.") == {"cats": PASSING, "sleep": PASSING}


def test_a_sentence_that_puts_a_kind_first_asks_for_it_as_a_list_does() -> None:
    assert kinds("Focus on zorples.") == {"zorples": 1}
    assert kinds("Never write about zorples.") == {"zorples": -PASSING}


def test_what_fits_a_kind_that_is_not_wanted_fits_the_less() -> None:
    said = words_of("I own two cats.")
    (_, fit), (_, no_fit) = (read_instructions(text).kind_of(said) for text in ("- cats", "Leave out:\n- cats"))
    assert fit == pytest.approx(-no_fit)
    assert fit > 0
    kind, both = read_instructions("- cats\n\nLeave out:\n- cats").kind_of(said)
    assert (kind and kind.text, both) == ("cats", 0)


# Rules in lists


def test_an_item_that_is_an_order_is_no_kind() -> None:
    text = "Rules:\n- Keep each note brief.\n- No dates\n- Ignore other people\n\nNote:\n- pets\n- personal details"
    instructions = read_instructions(text)
    assert kinds(text) == {"pets": 1, "personal details": 1}
    assert instructions.words_per_note == WORDS_PER_BRIEF_NOTE
    assert instructions.own == 1


def test_an_order_under_a_heading_that_forbids_it_is_turned_round() -> None:
    assert read_instructions("Do not:\n- shorten anything\n- add dates").words_per_note > WORDS_PER_NOTE
    assert read_instructions("Avoid:\n- long notes\n- chat").words_per_note < WORDS_PER_NOTE
    assert read_instructions("Please:\n- add the date").dated
    assert not read_instructions("Never:\n- add the date").dated
    assert not read_instructions("## Avoid\n- No dates").dated
    assert kinds("Leave out:\n- cats\n- no dogs") == {"cats": -1, "no dogs": -1}


def test_a_few_words_of_a_list_name_a_kind() -> None:
    for name in ("hiking_outing_length", "commuting journey length", "date of birth", "both parents"):
        assert kinds(f"Note:\n- {name}") == {name: 1}


@pytest.mark.parametrize("mark", ["-", "+", "*", "\u2022", "\u2013", "1.", "2)", "(3)", "a)", "(b)", "[4]"])
def test_a_list_may_have_any_marks(mark: str) -> None:
    assert kinds(f"Note:\n{mark} pets\n{mark} personal details") == {"pets": 1, "personal details": 1}


def test_a_stated_length_is_as_brief_as_is_meant() -> None:
    assert read_instructions("No more than 25 words each.").words_per_note == WORDS_PER_NOTE
    assert read_instructions("No more than eight words each.").words_per_note <= 8


def test_a_rule_may_have_a_name_before_it() -> None:
    text = "1. **Brevity**: keep each note short.\n2. Dates: always add the date.\n3. Pets: dogs, cats"
    instructions = read_instructions(text)
    assert kinds(text) == {"Pets: dogs, cats": 1}
    assert instructions.words_per_note == WORDS_PER_BRIEF_NOTE
    assert instructions.dated


def test_a_name_that_forbids_turns_its_rule_round() -> None:
    assert read_instructions("- Never: write long notes").words_per_note < WORDS_PER_NOTE
    assert read_instructions("Do not:\n- Style: shorten anything").words_per_note > WORDS_PER_NOTE


def test_a_label_is_a_label_whatever_it_says() -> None:
    assert [kind.text for kind in read_labels("- keep it brief\n- no dates").kinds] == ["keep it brief", "no dates"]


def test_a_slug_is_a_label_of_the_first_content_words() -> None:
    assert slug("Their old pets: cats and dogs") == "old_pet"
