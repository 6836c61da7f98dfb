"""Predictive validity of labels.

Invariants:

1. The ratio is that of the two shares, and its interval holds it where groups are alike.
2. A check counts after a loss of any of its facts, or where all of them are known to be kept.
3. A label of another value of the same key tells nothing of a fact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toy
from mnemotune.data.task import Check, Fact
from mnemotune.env.episode import Mark
from mnemotune.env.memrm.collection.validity import Outcome, answers_after, facts_after, validity
from mnemotune.env.memrm.rows.row import FactLabel, Row

TASK = toy.Letters("letters", "writer", 4)


def outcomes(lost: bool, *, failed: int, fine: int, groups: str = "abcd") -> list[Outcome]:
    return [Outcome(group, lost, place < failed) for group in groups for place in range(failed + fine)]


def test_the_ratio_is_that_of_the_shares_invariant_1() -> None:
    found = validity(outcomes(True, failed=6, fine=4) + outcomes(False, failed=2, fine=8))
    assert found is not None
    assert (found.after_harmful, found.after_safe, found.count) == (0.6, 0.2, 80)
    assert found.ratio == pytest.approx(3.0)
    assert found.low == pytest.approx(found.high) == pytest.approx(3.0)


@given(st.lists(st.builds(Outcome, st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=30))
def test_every_figure_is_in_its_range_or_there_is_none(found: list[Outcome]) -> None:
    figures = validity(found)
    if figures is not None:
        assert 0 <= figures.after_harmful <= 1
        assert 0 < figures.after_safe <= 1
        assert figures.ratio >= 0
        assert math.isnan(figures.low) or figures.low <= figures.high


def test_a_group_alone_has_no_interval() -> None:
    found = validity(outcomes(True, failed=1, fine=1, groups="a") + outcomes(False, failed=1, fine=3, groups="a"))
    assert found is not None
    assert math.isnan(found.low)


@pytest.mark.parametrize("found", [[], outcomes(True, failed=1, fine=1), outcomes(False, failed=1, fine=1)])
def test_without_outcomes_of_both_labels_nothing_is_told(found: list[Outcome]) -> None:
    assert validity(found) is None


def row(stage: int, *labels: tuple[str, bool | None]) -> Row:
    facts = [FactLabel(key=key, topic="things", lost=lost) for key, lost in labels]
    return Row(
        group="writer",
        task="letters",
        policy="p",
        stage=stage,
        write=stage,
        evicted=[],
        before=[],
        after=[],
        facts=facts,
    )


def test_the_newest_label_before_a_check_counts_invariant_2() -> None:
    check = list(TASK.checks.values())[-1]
    facts = [TASK.facts[need] for need in check.needs]
    since = max(fact.since for fact in facts)
    kept = [(fact.key, False) for fact in facts]
    lost = [(facts[0].key, True)]
    wrong = Mark(check.id, "", 0.0, recalled={facts[0].id: False})
    [kept_then_lost] = answers_after(TASK, [row(since, *kept), row(check.stage, *lost)], [wrong])
    assert kept_then_lost == Outcome("writer", True, True)
    [after_the_check] = answers_after(TASK, [row(since, *kept), row(check.stage + 1, *lost)], [wrong])
    assert after_the_check == Outcome("writer", False, True)
    assert list(answers_after(TASK, [row(since, (facts[0].key, None))], [wrong])) == []
    assert list(answers_after(TASK, [row(since - 1, *lost)], [wrong])) == []


def test_a_check_without_a_score_and_a_fact_that_was_not_asked_for_are_left_out() -> None:
    check = list(TASK.checks.values())[-1]
    rows = [row(check.stage, *((TASK.facts[need].key, True) for need in check.needs))]
    unscored = Mark(check.id, "", math.nan, recalled=dict.fromkeys(check.needs))
    assert list(answers_after(TASK, rows, [unscored])) == []
    assert list(facts_after(TASK, rows, [unscored])) == []
    known = Mark(check.id, "", 1.0, recalled=dict.fromkeys(check.needs, True))
    assert set(facts_after(TASK, rows, [known])) == {Outcome("writer", True, False)}


class Moved(toy.Letters):
    """A lantern that is carried from the attic to the cellar and back, and then asked for."""

    @cached_property
    def facts(self) -> Mapping[str, Fact]:
        places = enumerate(("attic", "cellar", "attic"))
        return {f"{s}": Fact(f"{s}", "lantern", "things", f"The lantern is in the {place}.", s) for s, place in places}

    @cached_property
    def checks(self) -> Mapping[str, Check]:
        return {"2.lantern": Check("2.lantern", "lantern", 2, ("2",), 0.25, "Where is the lantern?")}


@pytest.mark.parametrize(("named", "lost"), [("0", True), ("1", False), ("2", True), (None, True)])
def test_a_label_of_another_value_tells_nothing_of_a_fact_invariant_3(named: str | None, lost: bool) -> None:
    """The attic of the first letter is the state of the third; rows that name no fact are taken by their key."""
    told = row(2, ("lantern", False))
    later = row(2)
    later.facts.append(FactLabel(key="lantern", fact=named, topic="things", lost=True))
    known = Mark("2.lantern", "", 1.0, recalled={"2": True})
    moved = Moved("moved", "writer", 3)
    assert list(facts_after(moved, [told, later], [known])) == [Outcome("writer", lost, False)]
    assert list(answers_after(moved, [told, later], [known])) == [Outcome("writer", lost, False)]
