"""Bugs are bugs and plans repair them: each is played in a folder, with this Python.

1. Before a repair the tests FAIL_TO_PASS fail, and those of PASS_TO_PASS pass.
2. After the reference patch, and after the plan with right answers, all of them pass.
3. After the plan with a wrong answer that was seen where the right one was, they do not all pass.
4. What tells an answer is shown in its stage, and nothing of it in the newest 500 tokens before it is asked.
"""

from __future__ import annotations

import random
import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mnemotune.data.swe.bugs import BUGS
from mnemotune.data.swe.generator import task_of
from mnemotune.data.swe.task import Step, SweTask
from mnemotune.env.slot import read_slot
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.values import answer_value
from repairing import Bench, each_slot, like, newest, observed, stands_in

WINDOW_TOKENS = 500
MOST_TOKENS = 1_500
WRONG_ANSWERS = 2
SEED = 2_033

pytestmark = pytest.mark.exhaustive("bug")
BY_BUG = pytest.mark.parametrize("bug", [bug.name for bug in BUGS])


def task_named(bug: str) -> SweTask:
    return task_of(next(one for one in BUGS if one.name == bug), number=len(bug) % 4, seed=SEED)


@BY_BUG
def test_the_plan_and_the_patch_repair_what_fails_and_break_nothing(tmp_path: Path, bug: str) -> None:
    task = task_named(bug)
    bench = Bench(task, tmp_path)
    assert bench.passing() == {*task.pass_to_pass}
    bench.repair()
    assert bench.passing() == {*task.fail_to_pass, *task.pass_to_pass}
    if shutil.which("patch") is None:
        pytest.skip("install patch (apt-get install patch) to apply the reference patch")
    patched = Bench(task, tmp_path / "patched")
    (patched.root.parent / "repair.diff").write_text(task.patch, encoding="utf-8")
    assert "FAILED" not in patched.run("patch -p1 -s < ../repair.diff")
    assert patched.passing() == {*task.fail_to_pass, *task.pass_to_pass}
    for path in task.files:
        assert (patched.root / path).read_bytes() == (bench.root / path).read_bytes(), path


@cache
def shown_of(bug: str) -> list[tuple[Step, str]]:
    """Return what each step shows where every answer is right."""
    task = task_named(bug)
    with TemporaryDirectory() as folder:
        return observed(task, Bench(task, Path(folder)))


@BY_BUG
def test_a_wrong_answer_to_any_slot_leaves_a_test_failing(tmp_path: Path, bug: str) -> None:
    task = task_named(bug)
    for step, slot in each_slot(task):
        check = task.checks[slot.check]
        right, fact = task.right(check), task.facts[check.needs[0]]
        others = like(right, "".join(text for other, text in shown_of(bug) if other.stage < step.stage))
        overwritten = (one for one in task.facts.values() if one.key == fact.key and one.until is not None)
        stale = [value for one in overwritten for value in like(right, one.text)]
        assert others, f"nothing else like {right} is seen"
        wrong = random.Random(bug).sample(others, min(WRONG_ANSWERS, len(others)))
        for number, value in enumerate([*wrong, *stale[-1:], ""]):
            bench = Bench(task, tmp_path / f"{slot.name}{number}")
            bench.repair({slot.check: value})
            assert not bench.passing() >= {*task.fail_to_pass, *task.pass_to_pass}, (slot.name, value, right)


@BY_BUG
def test_the_evidence_is_shown_in_its_stage_and_far_from_its_use(bug: str) -> None:
    task, shown = task_named(bug), shown_of(bug)
    for fact in task.facts.values():
        assert any(fact.text in text for step, text in shown if step.stage == fact.since), fact.text
    for place, (step, _) in enumerate(shown):
        before = newest((text for _, text in shown[:place]), tokens=WINDOW_TOKENS)
        for slot in step.slots:
            assert not stands_in(step.right[slot.name], before), (slot.name, before)
    for stage in range(task.stages):
        assert sum(len(text.encode()) for step, text in shown if step.stage == stage) <= 4 * MOST_TOKENS, stage


@BY_BUG
def test_a_reader_answers_each_question_from_its_fact_alone_and_none_from_the_newest(bug: str) -> None:
    task, shown = task_named(bug), shown_of(bug)
    for place, (step, _) in enumerate(shown):
        window = Message("user", newest((text for _, text in shown[:place]), tokens=WINDOW_TOKENS))
        for slot in step.slots:
            check = task.checks[slot.check]
            fact = Message("system", "\n".join(task.facts[need].text for need in check.needs))
            assert read_slot(answer_value(check.text, [fact])) == task.right(check), check.text
            assert read_slot(answer_value(check.text, [window])) != task.right(check), check.text


@BY_BUG
def test_what_a_run_of_the_tests_writes_is_always_the_same(tmp_path: Path, bug: str) -> None:
    task = task_named(bug)
    first, again = (Bench(task, tmp_path / name).run(task.test_command) for name in ("here", "in_another_folder"))
    assert first == again
    assert str(tmp_path) not in first
    assert not re.search(r"0x[0-9a-f]{6}|\d\d:\d\d:\d\d|Traceback", first)


@BY_BUG
def test_named_tests_run_alone_with_the_same_result(tmp_path: Path, bug: str) -> None:
    task = task_named(bug)
    bench = Bench(task, tmp_path)
    for name in task.fail_to_pass:
        assert f"FAIL {name}: expected " in bench.run(f"{task.test_command} {name}")
    passing = bench.run(f"{task.test_command} {' '.join(task.pass_to_pass)}")
    assert re.findall(r"^(\w+) (\w+)$", passing, re.MULTILINE) == [("PASS", name) for name in task.pass_to_pass]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_another_version_of_python_writes_the_same(tmp_path: Path, version: str) -> None:
    for bug in ("pages", "encoding", "floats", "ties"):
        task = task_named(bug)
        other = Bench(task, tmp_path / version / bug, python=f"python{version}")
        if f"Python {version}" not in other.run("python --version"):
            pytest.skip(f"install Python {version} as python{version} to compare what it writes")
        assert other.run(task.test_command) == Bench(task, tmp_path / bug).run(task.test_command)
