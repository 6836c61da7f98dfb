"""Words in a text."""

from __future__ import annotations

import pytest

from mnemotune.data.words import has_words


@pytest.mark.parametrize(
    ("text", "words", "stand"),
    [
        ("order #W1234.", "W1234", True),
        ("order #W12345", "W1234", False),
        ("the old_name", "name", False),
        ("the name", "Name", False),
        ("call +1 (555) now", "+1 (555)", True),
        ("a.b", "a?b", False),
        ("die Größe", "Größe", True),
        ("die Größen", "Größe", False),
    ],
)
def test_words_stand_in_a_text_in_the_same_letters_and_as_no_part_of_a_longer_word(
    text: str, words: str, stand: bool
) -> None:
    assert has_words(text, words) == stand
