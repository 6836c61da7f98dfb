"""Numbers in running text and in names."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm.embedded.quantities import Quantity, levels, quantities


@pytest.mark.parametrize(
    ("text", "low", "high", "unit"),
    [
        ("a plot that's about 1,000 square feet", 1000, 1000, "square feet"),
        ("medium_plot_500_1500_sqft", 500, 1500, "square feet"),
        ("over_1500_sqft", 1500, math.inf, "square feet"),
        ("less_than_500_sqft", 0, 500, "square feet"),
        ("about $500", 500, 500, "money"),
        ("$1.5k", 1500, 1500, "money"),
        ("200_to_1000_dollars", 200, 1000, "money"),
        ("3 to 8 hours", 180, 480, "minutes"),
        ("half an hour", 30, 30, "minutes"),
        ("ten minutes", 10, 10, "minutes"),
        ("a two-hour drive", 120, 120, "minutes"),
        ("10-20 minutes", 10, 20, "minutes"),
        ("group_of_10_plus_people", 10, math.inf, "people"),
        ("up to 5 guests", 0, 5, "people"),
        ("a dozen guests", 12, 12, "people"),
        ("30 to 10 days", 10, 30, "days"),
        ("route 66", 66, 66, ""),
    ],
)
def test_a_quantity_is_a_range_with_a_unit(text: str, low: float, high: float, unit: str) -> None:
    assert quantities(text) == (Quantity(low, high, unit),)


@pytest.mark.parametrize("text", ["", "one of my friends", "in 2021 it rained", "a cat", "for the second time"])
def test_a_year_and_a_figure_of_speech_are_no_quantities(text: str) -> None:
    assert quantities(text) == ()


def test_a_quantity_is_within_a_range_of_its_unit_or_of_none() -> None:
    hour = Quantity(60, 60, "minutes")
    assert hour.within(Quantity(30, 90, "minutes"))
    assert hour.within(Quantity(30, 90, ""))
    assert not hour.within(Quantity(30, 90, "money"))
    assert not hour.within(Quantity(0, 30, "minutes"))
    assert Quantity(1500, math.inf, "").within(Quantity(1500, math.inf, ""))
    assert not Quantity(1500, math.inf, "").within(Quantity(500, 1500, ""))


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("over_1000_dollars", ("degree_much", "budget_high")),
        ("200_to_1000_dollars", ("degree_some", "budget_middle")),
        ("less_than_500_sqft", ("degree_little", "space_small")),
        ("over 8 hours", ("degree_much", "time_plenty")),
        ("up to 3 days", ("degree_little",)),
        ("1,000 square feet", ()),
    ],
)
def test_a_range_is_little_some_or_much_of_what_it_counts(text: str, groups: tuple[str, ...]) -> None:
    (quantity,) = quantities(text)
    assert levels(quantity) == groups


@given(text=st.text())
def test_any_text_has_quantities_from_low_to_high(text: str) -> None:
    for quantity in quantities(text):
        assert 0 <= quantity.low <= quantity.high
