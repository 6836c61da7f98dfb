"""The tasks that ship: what their plans, facts and checks promise."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest

from mnemotune.data.task import grouped
from mnemotune.data.web.generator import APPS, each_task
from mnemotune.data.web.load import load_web
from mnemotune.data.web.task import WebTask, web_task
from mnemotune.data.web.validation import check_task
from mnemotune.data.web.verifier import verify

DESKS = [web_task(task) for task in load_web("desks")]
each = pytest.mark.parametrize("task", DESKS, ids=lambda task: task.id)


def texts_in(value: Any) -> set[str]:
    """Return the texts of a state, without the keys."""
    if isinstance(value, str):
        return {value}
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {text for part in parts for text in texts_in(part)}


def test_eighteen_instances_of_each_app_ship_with_two_tasks_each() -> None:
    groups = grouped(DESKS)
    assert Counter(web_task(group.tasks[0]).app for group in groups) == dict.fromkeys(APPS, 18)
    assert {len(group.tasks) for group in groups} == {2}
    assert len({task.id for task in DESKS}) == 72


def test_the_tasks_of_an_instance_begin_with_the_same_state() -> None:
    for group in grouped(DESKS):
        first, second = map(web_task, group.tasks)
        assert first.state == second.state
        assert first.verify != second.verify


def test_the_same_seed_makes_the_same_tasks() -> None:
    assert list(each_task(36, 0)) == DESKS


def test_another_seed_makes_others() -> None:
    own, others = ({t.right(c) for t in tasks for c in t.checks.values()} for tasks in (DESKS, list(each_task(36, 1))))
    both = {value for value in own & others if len(value) > 6}
    assert both == set()  # what is shorter are days and amounts


def test_two_instances_of_an_app_share_few_values() -> None:
    """What they share are the words of the app: sizes, times, kinds of rooms, small amounts."""
    for app in APPS:
        states = [texts_in(web_task(group.tasks[0]).state) for group in grouped(DESKS) if group.id.startswith(app)]
        for one, other in combinations(states, 2):
            assert len(one & other) < 0.2 * min(len(one), len(other))


def test_names_and_numbers_of_two_instances_are_all_different() -> None:
    for app in APPS:
        states = [web_task(group.tasks[0]).state for group in grouped(DESKS) if group.id.startswith(app)]
        assert len({state["name"] for state in states}) == len(states)
        for one, other in combinations(states, 2):
            key = "arrivals" if app == "depot" else "bookings"
            numbers = [{row["number"] for row in state[key]} for state in (one, other)]
            assert numbers[0].isdisjoint(numbers[1])


@each
def test_a_plan_has_six_to_nine_stages_and_asks_in_three_or_more(task: WebTask) -> None:
    assert 6 <= task.stages <= 9
    assert len(task.checks) >= 5
    assert len({check.stage for check in task.checks.values()}) >= 3
    assert all(task.at(stage) for stage in range(task.stages))


@each
def test_facts_come_from_three_or_more_pages_and_one_is_overwritten(task: WebTask) -> None:
    assert len({(fact.since, fact.topic) for fact in task.facts.values()}) >= 3
    old = [fact for fact in task.facts.values() if fact.until is not None]
    assert old
    for fact in old:
        (new,) = [one for one in task.facts.values() if one.key == fact.key and one.since == fact.until]
        assert new.text != fact.text


@each
def test_what_is_asked_was_shown_in_an_earlier_stage(task: WebTask) -> None:
    for check in task.checks.values():
        assert check.chance == 0
        assert all(task.facts[need].since < check.stage for need in check.needs)


@each
def test_neither_the_instruction_nor_the_question_tells_the_answer(task: WebTask) -> None:
    for check in task.checks.values():
        right = task.right(check)
        assert f" {right}" not in f" {check.text}"
        assert right not in task.instruction or right.isdigit()


@each
def test_a_task_that_ships_holds_together_and_is_not_done_before_it_begins(task: WebTask) -> None:
    check_task(task, where="desks")
    assert not verify(task.verify, task.state, task.state)[0]


@each
def test_the_values_that_are_asked_for_stand_at_the_end_of_their_row(task: WebTask) -> None:
    for check in task.checks.values():
        (fact,) = (task.facts[need] for need in check.needs)
        assert fact.text.rstrip(".").endswith(f" {task.right(check)}")
