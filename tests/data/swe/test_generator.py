"""What is generated: always the same, nothing that can be guessed, and no two variants alike."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections import defaultdict
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data.chunks import BYTES_PER_TOKEN
from mnemotune.data.swe.bugs import BUGS
from mnemotune.data.swe.builder import patch_of
from mnemotune.data.swe.generator import SHIPPED, each_task, task_of
from mnemotune.data.swe.parts.edit import changed, swapped
from mnemotune.data.swe.task import SweTask
from mnemotune.data.swe.validation import check_task
from repairing import each_slot

NUMBERS = st.tuples(st.sampled_from(BUGS), st.integers(0, 999), st.integers(0, 10**18 - 1))
COMMON = ("run_tests.py", "tools/edit.py")
"""Files that all repositories share."""


@pytest.fixture(scope="module")
def shipped() -> list[SweTask]:
    return list(each_task(SHIPPED, 0))


def values(task: SweTask) -> set[str]:
    return {step.right[slot.name] for step, slot in each_slot(task)}


def texts(task: SweTask) -> str:
    return "\n".join([task.problem, *(text for path, text in task.files.items() if path not in COMMON)])


def phrases(task: SweTask, *, words: int = 6) -> set[tuple[str, ...]]:
    found = re.findall(r"\w+|[^\w\s]", texts(task))
    return {tuple(found[place : place + words]) for place in range(len(found) - words)}


@given(NUMBERS)
@settings(max_examples=40)
def test_every_variant_holds_together(drawn: tuple[int, int, int]) -> None:
    bug, number, seed = drawn
    task = task_of(bug, number=number, seed=seed)
    check_task(task, where="made")
    assert len(task.files) == 9
    assert 6 <= task.stages <= 9
    assert len(task.checks) >= 5
    assert len({check.stage for check in task.checks.values()}) >= 3
    commands = [step.command for step in task.steps if step.command != task.test_command]
    assert len({*commands}) == len(commands)
    needed = {need for check in task.checks.values() for need in check.needs}
    assert all(task.facts[need].until is None for need in needed)
    assert any(fact.until is not None for fact in task.facts.values())
    assert all(check.chance == 0 for check in task.checks.values())


@given(NUMBERS)
@settings(max_examples=40)
def test_each_fact_stands_once_in_what_tells_it(drawn: tuple[int, int, int]) -> None:
    bug, number, seed = drawn
    task = task_of(bug, number=number, seed=seed)
    told = "\n".join(
        [task.problem, *(text for path, text in task.files.items() if path.startswith(("docs/", "logs/")))]
    )
    for step, slot in each_slot(task):
        fact = task.facts[task.checks[slot.check].needs[0]]
        assert step.right[slot.name] in fact.text
        assert told.count(fact.text) == (0 if slot.name in ("file", "function") else 1), fact.text


@given(NUMBERS)
@settings(max_examples=40)
def test_no_value_stands_in_the_plan(drawn: tuple[int, int, int]) -> None:
    bug, number, seed = drawn
    task = task_of(bug, number=number, seed=seed)
    commands = "\n".join(step.command for step in task.steps)
    for value in values(task):
        assert re.search(rf"(?<![\w/]){re.escape(value)}(?![\w/])", commands) is None


def test_the_shipped_tasks_are_four_variants_of_each_bug(shipped: list[SweTask]) -> None:
    groups = defaultdict(list)
    for task in shipped:
        groups[task.group].append(task.id)
    assert len(groups) == len({bug.name for bug in BUGS}) >= 30
    assert {len(ids) for ids in groups.values()} == {SHIPPED}
    assert len({task.id for task in shipped}) == len(shipped)


def test_no_two_shipped_tasks_share_a_value_that_is_no_number(shipped: list[SweTask]) -> None:
    for one, other in combinations(shipped, 2):
        assert not [value for value in values(one) & values(other) if not value.isdigit()], (one.id, other.id)


def test_variants_of_a_bug_share_little_more_text_than_other_tasks(shipped: list[SweTask]) -> None:
    found = {task.id: phrases(task) for task in shipped}
    for one, other in combinations(shipped, 2):
        if one.group == other.group:
            smaller = min(len(found[one.id]), len(found[other.id]))
            assert len(found[one.id] & found[other.id]) < 0.25 * smaller, (one.id, other.id)


def test_a_seed_gives_the_same_tasks_in_every_process() -> None:
    program = (
        "import hashlib; from mnemotune.data.swe.generator import each_task; "
        "print(hashlib.sha256(repr(list(each_task(1, 7))).encode()).hexdigest())"
    )
    here = hashlib.sha256(repr(list(each_task(1, 7))).encode()).hexdigest()
    for hashes in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == here


def test_another_seed_gives_other_tasks() -> None:
    for one, other in zip(each_task(1, 7), each_task(1, 8), strict=True):
        assert one.id != other.id
        assert not [value for value in values(one) & values(other) if not value.isdigit()]


def test_the_parts_of_notes_and_log_that_are_shown_are_long_enough(shipped: list[SweTask]) -> None:
    for task in shipped:
        notes = next(text for path, text in task.files.items() if path.startswith("docs/"))
        assert len(notes.encode()) >= 3 * 600 * BYTES_PER_TOKEN


def test_a_swap_changes_only_its_function() -> None:
    text = "def a(x):\n    return x + 1\n\n\ndef b(x):\n\n    return x + 1\n"
    assert swapped(text, "b", "x + 1", "x") == "def a(x):\n    return x + 1\n\n\ndef b(x):\n\n    return x\n"
    for function, old in (("c", "x + 1"), ("", "x + 1"), ("a", "x + 2"), ("b", "x")):
        with pytest.raises(LookupError):
            swapped(text, function, old, "y")


def test_a_setting_is_changed_in_its_section_alone() -> None:
    text = "[a]\nsize = 1\n\n[b]\nsize = 2\n"
    assert changed(text, "b", "size", "3\n[c]") == "[a]\nsize = 1\n\n[b]\nsize = 3 [c]\n"
    for section, key in (("c", "size"), ("a", "width"), ("", "size")):
        with pytest.raises(LookupError):
            changed(text, section, key, "3")


def test_a_patch_of_equal_files_is_empty() -> None:
    assert patch_of({"a": "x\n"}, {"a": "x\n"}) == ""
    assert patch_of({"a": "x\n"}, {"a": "y\n"}) == "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"
