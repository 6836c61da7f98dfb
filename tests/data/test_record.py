"""Frozen values that are read from text, and what is said of wrong ones."""

from __future__ import annotations

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
