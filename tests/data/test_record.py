"""Frozen values that are read from text, and what is said of wrong ones."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from mnemotune.data.record import Record, first_problem


class Point(Record):
    x: int
    inner: dict[str, int] = {}


def problem_of(values: object, **more: str) -> str:
    with pytest.raises(ValidationError) as caught:
        Point.model_validate(values)
    return first_problem(caught.value, **more)


def test_the_first_problem_comes_after_its_place() -> None:
    assert problem_of({"x": 1, "inner": {"a": "b"}}).startswith("inner.a: ")
    assert problem_of({"x": 1, "y": 2}) == "y: Extra inputs are not permitted"


def test_what_is_wrong_as_a_whole_has_the_name_that_is_given() -> None:
    assert problem_of([], whole="config").startswith("config: ")


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Point(x=1).x = 2


class Numbers(Record):
    count: int | None = None
    share: float = 0.5
    on: bool = False
    either: int | bool = 1
    kept: dict[str, float] = {}


@pytest.mark.parametrize("name", ["count", "share"])
def test_truth_is_no_number(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name}: true is no number"):
        Numbers.model_validate({name: True})
    assert Numbers.model_validate({"on": True, "either": True, "count": None}).on


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_not_finite_is_refused(value: float) -> None:
    for values in ({"share": value}, {"kept": {"a": value}}):
        with pytest.raises(ValidationError, match="finite number"):
            Numbers.model_validate(values)
