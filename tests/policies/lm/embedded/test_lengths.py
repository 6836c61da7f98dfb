"""Limits of length that prompts state."""

from __future__ import annotations

import math

import pytest

from mnemotune.policies.lm.embedded.lengths import limits, word_limits


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("At most ten words.", 10),
        ("No more than 8 words per note.", 8),
        ("Use 5 words or fewer.", 5),
        ("Write two to five words each.", 5),
        ("Use 3-6 words.", 6),
        ("Never use more than six words.", 6),
        ("A dozen words will do.", 12),
        ("Keep notes under 20 words.", 20),
    ],
)
def test_a_note_can_have_a_most(text: str, most: int) -> None:
    assert word_limits(text) == (1, most)


@pytest.mark.parametrize("text", ["Use at least 30 words.", "Write 30 words or more.", "No fewer than thirty words."])
def test_a_note_can_have_a_least(text: str) -> None:
    assert word_limits(text) == (30, math.inf)


def test_a_length_may_go_on_in_the_next_line_but_not_in_the_next_paragraph() -> None:
    assert word_limits("Use at least\n30 words.") == (30, math.inf)
    assert word_limits("Do not limit the number of notes\n\nAt most ten words") == (1, 10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Use words.",
        "Do not limit notes to ten words.",
        "At most 900 words.",
        "At most 100 words in all.",
        "At most 9 tokens.",
        "Give each a title (at most 5 words) and a narrative.",
        "Name the people in it, with two words per name.",
    ],
)
def test_what_is_no_limit_of_a_note_leaves_it_free(text: str) -> None:
    assert word_limits(text) == (1, math.inf)


def test_lengths_have_their_unit_and_tell_whether_they_are_those_of_all_notes_together() -> None:
    assert list(limits("At most 300 tokens in all, 20 words a line.")) == [("tokens", 0, 300), ("word", 0, 20)]
