"""A step of a plan: where its answers go."""

from __future__ import annotations

import pickle

import pytest

from mnemotune.data.folded import FoldedTask
from mnemotune.data.task import TaskError
from mnemotune.data.tools.load import load_tools
from mnemotune.data.web.generator import each_task
from mnemotune.data.web.task import Slot, Step, web_task

OPEN = Step(2, "click", 'link "Parcel {parcel}"', "", {"parcel": "X-1"}, (Slot("parcel", "7.parcel"),))


def test_a_slot_in_the_target_is_filled() -> None:
    assert OPEN.filled({"7.parcel": "X-2", "other": "X-3"}) == ("click", 'link "Parcel X-2"', "")


def test_a_slot_in_the_value_is_filled() -> None:
    step = Step(0, "type", 'textbox "Reply"', "{a} and {b}", {"a": "1", "b": "2"}, (Slot("a", "x"), Slot("b", "y")))
    assert step.filled({"x": "one", "y": "{a}"}) == ("type", 'textbox "Reply"', "one and {a}")


def test_no_answer_is_an_empty_text() -> None:
    assert OPEN.filled({"7.parcel": None}) == ("click", 'link "Parcel "', "")


def test_braces_that_are_no_slot_are_left_alone() -> None:
    assert Step(0, "type", 'textbox "A {b}"', "{c} {}").filled({}) == ("type", 'textbox "A {b}"', "{c} {}")


def test_a_task_is_the_same_after_it_was_folded_or_sent_to_another_process() -> None:
    task = next(each_task(1, 3))
    assert web_task(FoldedTask.of(task)) == task == pickle.loads(pickle.dumps(task))  # noqa: S301
    assert web_task(task) is task


def test_another_track_s_task_is_refused() -> None:
    other = load_tools("generated:1@3")[0]
    with pytest.raises(TaskError, match=rf"{other.id}: is no task of the web track"):
        web_task(other)
