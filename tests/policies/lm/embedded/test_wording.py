"""The words of instructions."""

from __future__ import annotations

import pytest

from mnemotune.policies.lm.embedded.strengths import strengths_of
from mnemotune.policies.lm.embedded.wording import hits_of, split_sentences


def test_a_sentence_that_goes_on_in_the_next_line_is_one() -> None:
    assert split_sentences("Keep it\nshort. Now\n\nadd dates:\n- a day\n- a week") == (
        "Keep it\nshort.",
        "Now",
        "add dates:",
        "- a day",
        "- a week",
    )


def test_a_line_that_starts_with_a_number_goes_on_unless_it_is_an_item() -> None:
    assert split_sentences("Use at most\n30 words.\n- Be brief") == ("Use at most\n30 words.", "- Be brief")


def test_where_a_line_ends_is_no_stop() -> None:
    assert hits_of("Do not go\n into detail") == hits_of("Do not go into detail")


def test_short_forms_and_particles_are_read_as_what_they_stand_for() -> None:
    assert strengths_of("Don\u2019t be brief.") == strengths_of("Do not be brief.")
    assert strengths_of("Dont be brief.") == strengths_of("Do not be brief.")
    assert strengths_of("It takes the notes into account.") == strengths_of("It takes into account the notes.")
    assert strengths_of("Leave every last detail out.") == strengths_of("Leave out every last detail.")


def test_the_longest_phrase_counts_and_not_the_words_in_it() -> None:
    words = [hit.words for hit in hits_of("There is no need to be long-winded, as said.")]
    assert words == ["there", "is", "no need to", "be", "long winded", ",", "as said", "."]


@pytest.mark.parametrize(
    "text", ["Use clear labels; when\nsomething changed, say so.", "Note when\n", "when \n\n it was said"]
)
def test_a_line_may_break_behind_when(text: str) -> None:
    assert "when" in [hit.words for hit in hits_of(text)]


def test_when_asks_for_a_day_where_something_was_said_and_else_for_a_condition() -> None:
    groups = [hit.groups for text in ("Note when it was said.", "When it was said, note it.") for hit in hits_of(text)]
    assert sum("~when" in each for each in groups) == 1
    assert sum("condition" in each for each in groups) == 1
