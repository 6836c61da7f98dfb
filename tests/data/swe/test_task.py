"""Commands with answers in their slots: the shell reads each answer as one word, whatever it is."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.folded import FoldedTask
from mnemotune.data.swe.generator import each_task
from mnemotune.data.swe.task import Slot, Step, swe_task
from mnemotune.data.task import TaskError
from mnemotune.data.tools.load import load_tools

STEP = Step(
    0,
    "show {first} '{other}' {second} ${HOME}",
    {"first": "a", "second": "b"},
    (Slot("first", "1"), Slot("second", "2")),
)
ANSWERS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@given(ANSWERS, ANSWERS)
def test_each_answer_is_one_word_of_the_command(first: str, second: str) -> None:
    words = shlex.split(STEP.filled({"1": first, "2": second}))
    assert words == ["show", first.replace("\0", ""), "{other}", second.replace("\0", ""), "${HOME}"]


@pytest.mark.parametrize("answer", ["it's; ls", "$(id)", "`id`", "a\nb", "{second}", "-n", "ü", '"', "*"])
def test_a_shell_reads_an_answer_as_it_is(answer: str) -> None:
    command = Step(0, "printf %s {word}", {"word": "x"}, (Slot("word", "1"),)).filled({"1": answer})
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout.decode() == answer


def test_no_answer_is_an_empty_word() -> None:
    assert shlex.split(STEP.filled({"1": None, "2": "b"}))[1] == ""


def test_the_right_command_has_the_right_values() -> None:
    assert STEP.gold == "show a '{other}' b ${HOME}"


def test_a_folded_task_is_opened_and_another_track_s_is_refused() -> None:
    task = next(each_task(1, 3))
    assert swe_task(FoldedTask.of(task)) == swe_task(task) == task
    with pytest.raises(TaskError, match="is no task of the swe track"):
        swe_task(load_tools("generated:1@3")[0])


def test_the_right_answer_to_a_check_is_that_of_its_slot() -> None:
    task = next(each_task(1, 3))
    right = {slot.check: step.right[slot.name] for step in task.steps for slot in step.slots}
    assert {check.id: task.right(check) for check in task.checks.values()} == right
