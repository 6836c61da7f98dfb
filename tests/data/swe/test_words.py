"""Draws: the same for a seed, nothing twice, and wordings that are kept where they have a name."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.swe.words import Draw

SEEDS = st.text(max_size=12)


@given(SEEDS)
def test_no_word_and_no_number_is_drawn_twice(seed: str) -> None:
    draw = Draw(seed)
    words, numbers = draw.words(300), draw.numbers(200, 100, 400)
    assert len({*words}) == 300
    assert len({*numbers}) == 200
    assert all(re.fullmatch("[a-z]{4,}", word) for word in words)


@given(SEEDS)
def test_a_seed_gives_the_same_text(seed: str) -> None:
    template = "<<a>> [[b:one|two]] <<b>> [[three|four]] <<a>>"
    assert Draw(seed).text(template) == Draw(seed).text(template)


@given(SEEDS)
def test_what_has_a_name_is_kept(seed: str) -> None:
    draw = Draw(seed)
    first, second = draw.line("<<word>> [[choice:one|two]]").split()
    assert draw.line("<<word>> [[choice:one|two]] <<choice>>") == f"{first} {second} {second}"


def test_other_brackets_are_left_alone() -> None:
    text = "rows = [[0] * 3] * 3; x << 2; {name}; a[b[0]]; [[x]]\n"
    assert Draw("").text(text) == text


def test_a_wording_may_be_empty_and_may_have_names() -> None:
    drawn = {Draw(str(seed)).line("a[[ <<B>>|]]", B="b") for seed in range(30)}
    assert drawn == {"a b", "a"}
