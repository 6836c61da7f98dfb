"""What memory holds at the end of a task."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.task import Check, Fact
from mnemotune.env.stored import FIGURES, Stored, mean_stored
from tasks import HandMade

TASK = HandMade(
    stages=3,
    facts={
        "job": Fact("job", "job", "work", "Ann repairs old clocks", 0, until=2),
        "new": Fact("new", "job", "work", "Ann drives a night bus", 2),
        "pet": Fact("pet", "pet", "home", "a grey parrot", 1, sources=("Which seeds suit my grey parrot at night?",)),
    },
    checks={"q": Check("q", "job?", 2, ("new",), 0.25), "r": Check("r", "pet?", 1, ("pet",), 0.25)},
)


def held(*lines: str) -> Stored:
    return Stored.of(TASK, lines)


def test_a_line_that_tells_nothing_any_check_needs_is_junk() -> None:
    assert held("Ann drives a night bus", "The weather turned cold").junk == 0.5


def test_a_line_that_tells_what_was_overwritten_is_stale_unless_it_tells_what_holds_too() -> None:
    assert held("Ann repairs old clocks").stale == 1
    assert held("Ann repairs old clocks, no, she drives a night bus: Ann drives a night bus").stale == 0
    assert held("Ann drives a night bus").stale == 0


def test_a_line_that_says_what_a_later_line_says_is_a_duplicate() -> None:
    assert held("a grey parrot", "Ann drives a night bus", "pet: the grey parrot").duplicates == pytest.approx(1 / 3)


def test_a_fact_is_told_by_the_sentence_that_told_it_by_a_note_cut_short_and_under_any_label() -> None:
    for line in ("Which seeds suit my grey parrot at night?", "home: my grey parrot", "Which seeds suit my"):
        assert held(line).junk == 0, line
    assert held("parrot: The weather turned cold").junk == 1


def test_bytes_are_those_of_utf_8() -> None:
    assert (held("naïve", "ok").bytes, held("naïve", "ok").lines) == (8, 2)


def test_a_memory_without_a_line_has_no_shares() -> None:
    empty = held()
    assert (empty.lines, empty.bytes) == (0, 0)
    assert all(math.isnan(share) for share in (empty.junk, empty.duplicates, empty.stale))
    assert empty.as_json()["junk"] is None


def test_shares_that_no_line_could_add_to_are_not_known() -> None:
    unasked = HandMade(stages=1, facts={}, checks={"q": Check("q", "Do the tests pass?", 0, (), 0.0)})
    assert math.isnan(Stored.of(unasked, ["The tests are in tests/"]).junk)
    lasting = HandMade(stages=3, facts={"pet": TASK.facts["pet"]}, checks={"r": TASK.checks["r"]})
    assert math.isnan(Stored.of(lasting, ["a grey parrot"]).stale)


def test_means_leave_out_what_is_not_known() -> None:
    assert mean_stored([held(), held("Ann drives a night bus", "Nothing much")])["junk"] == 0.5
    assert mean_stored([held(), held("Ann drives a night bus", "Nothing much")])["lines"] == 1
    assert math.isnan(mean_stored([])["bytes"])


@given(st.lists(st.text(max_size=40), max_size=12))
def test_shares_lie_between_0_and_1_whatever_the_order(lines: list[str]) -> None:
    one, other = Stored.of(TASK, lines), Stored.of(TASK, lines[::-1])
    assert one.as_json() == other.as_json()
    for name in FIGURES[2:]:
        share = getattr(one, name)
        assert math.isnan(share) or 0 <= share <= 1
