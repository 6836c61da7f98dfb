"""Records are pickled as their values alone."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from functools import cached_property

from mnemotune.data.values import Values


@dataclass(frozen=True)
class Point(Values):
    x: int
    label: str = ""

    @cached_property
    def derived(self) -> str:
        return self.label * 1000


@dataclass(frozen=True)
class Marked(Point):
    mark: float = 0.5


def test_a_record_is_read_back_as_it_was_written_and_so_is_a_more_special_one() -> None:
    for record in (Point(3, "a"), Marked(4, "b", 0.25)):
        assert copy.deepcopy(record) == record


def test_what_is_derived_does_not_travel() -> None:
    record = Point(3, "ab")
    before = pickle.dumps(record)
    assert record.derived
    assert pickle.dumps(record) == before
