"""Texts in pieces."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.chunks import chunks


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), st.integers(1, 20))
def test_pieces_are_small_and_together_they_are_the_text(text: str, tokens: int) -> None:
    pieces = chunks(text, tokens=tokens)
    assert "".join(pieces) == text
    assert all(piece and len(piece.encode()) <= 4 * tokens for piece in pieces)


def test_a_text_is_cut_at_line_ends_where_lines_are_short_enough() -> None:
    assert chunks("one\ntwo\nthree\n", tokens=2) == ["one\ntwo\n", "three\n"]


def test_a_long_line_is_cut_between_words() -> None:
    assert chunks("some words here", tokens=2) == ["some ", "words ", "here"]


def test_a_piece_holds_a_token_or_more() -> None:
    with pytest.raises(ValueError, match="0 tokens"):
        chunks("text", tokens=0)


def test_ten_times_as_long_a_line_takes_about_ten_times_as_long() -> None:
    def taken(words: int) -> float:
        began = time.process_time()
        assert "".join(chunks("word " * words)) == "word " * words
        return time.process_time() - began

    assert taken(1_000_000) < 30 * max(taken(100_000), 0.01)
