"""Tasks in their groups."""

from __future__ import annotations

import pytest

from mnemotune.data import Group
from mnemotune.data.task import checks_at, grouped, tasks_of
from tasks import HandMade, quiz


def test_groups_come_in_the_order_in_which_their_tasks_first_come() -> None:
    a, b, c, d = (HandMade(name, group=group) for name, group in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "z")))
    groups = grouped([a, b, c, d])
    assert groups == [Group("x", (a, c)), Group("y", (b,)), Group("z", (d,))]
    assert tasks_of(groups) == [a, c, b, d]
    assert grouped([]) == tasks_of([]) == []


def test_a_group_lasts_as_long_as_its_longest_task() -> None:
    short, long = HandMade("a", stages=2), HandMade("b", stages=5)
    assert Group("shop", (short, long)).stages == 5


@pytest.mark.parametrize(("stage", "asked"), [(0, []), (1, ["x", "y"]), (2, ["x@2"]), (3, [])])
def test_checks_of_a_stage_are_those_asked_at_its_end_in_their_order(stage: int, asked: list[str]) -> None:
    task = quiz("a", stages=4, tells={"k": 0}, asks={"x@2": (2, ("k",)), "x": (1, ("k",)), "y": (1, ("k",))})
    assert [check.id for check in checks_at(task, stage)] == asked
