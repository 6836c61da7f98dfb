"""Answers as values of the right one's kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.tools.task import like


@given(st.integers())
def test_only_a_whole_number_s_own_digits_are_equal_to_it(number: int) -> None:
    assert like(str(number), number) == number
    assert like(str(number + 1), number) != number
    assert like(f"{number - 1}.0", number) != number


@pytest.mark.parametrize(
    ("answer", "gold", "value"),
    [
        ("12.0", 12, 12),
        (" +12 ", 12, 12),
        ("1e3", 1000, 1000),
        ("12.5", 12, 12.5),
        ("9007199254740993", 2**53 + 1, 2**53 + 1),
        ("9007199254740993.0", 2**53, 2**53 + 1),
        ("9.007199254740993e15", 2**53, "9.007199254740993e15"),
        ("9" * 5000, 12, "9" * 5000),
        ("inf", 12, float("inf")),
        ("12", 12.0, 12.0),
        ("twelve", 12, "twelve"),
        ("12", "12", "12"),
        ("True", True, "True"),
        (None, 12, ""),
    ],
)
def test_an_answer_becomes_a_value_of_the_right_one_s_kind_where_it_can(
    answer: str | None, gold: Any, value: Any
) -> None:
    assert (like(answer, gold), type(like(answer, gold))) == (value, type(value))
