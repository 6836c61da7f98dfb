"""What a task of the swe track promises, checked where it comes from a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath

from ..task import TaskError
from .task import Step, SweTask

MOST_FILE_BYTES = 1_000_000
"""Of all files of a repository together."""
_IMAGE = re.compile(r"(?:[a-z0-9][a-z0-9._/:@-]{0,249})?")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def check_task(task: SweTask, *, where: str) -> None:
    """Check that a task holds together. Raises TaskError, beginning with ``where``, that names the field."""
    for problem in chain(_of_repository(task), _of_steps(task), _of_facts(task), _of_checks(task)):
        raise TaskError(f"{where}: {' '.join(problem.split())}")


def _of_repository(task: SweTask) -> Iterator[str]:
    if not _ID.fullmatch(task.id):
        yield f"id: {task.id[:60]!r} has other characters than letters, digits, dots, hyphens and underscores"
    if not task.group.strip():
        yield "group: is empty"
    if not task.problem.strip():
        yield "problem: is empty"
    if not _IMAGE.fullmatch(task.image):
        yield f"image: {task.image[:60]!r} is no image's name"
    if bool(task.files) == bool(task.image):
        yield "files: there has to be either a file or more, or an image"
    for path in task.files:
        if not _stands_inside(path):
            yield f"files: {path[:60]!r} is no path inside the repository"
    if sum(len(text.encode("utf-8", "surrogatepass")) for text in task.files.values()) > MOST_FILE_BYTES:
        yield f"files: they have more than {MOST_FILE_BYTES:,} bytes together"
    if "\0" in "".join(task.files.values()):
        yield "files: a null character is in a text"
    patched = re.findall(r"^--- a/(\S+)", task.patch, re.MULTILINE)
    if not task.patch.strip():
        yield "patch: is empty"
    elif task.files and not patched:
        yield "patch: it changes no file"
    elif task.files and (unknown := [path for path in patched if path not in task.files]):
        yield f"patch: there is no file {unknown[0][:60]!r}"
    if not task.test_command.strip():
        yield "test_command: is empty"
    if not task.fail_to_pass:
        yield "fail_to_pass: there has to be 1 or more"
    if both := sorted({*task.fail_to_pass} & {*task.pass_to_pass}):
        yield f"pass_to_pass: {both[0][:60]!r} is in fail_to_pass too"


def _stands_inside(path: str) -> bool:
    parts = path.split("/")
    plain = re.fullmatch(r"[\w./+-]+", path) and not PurePosixPath(path).is_absolute()
    return bool(plain) and not {"", ".", ".."} & {*parts} and not path.startswith("-")


def _of_steps(task: SweTask) -> Iterator[str]:
    if task.stages < 1:
        yield f"stages: {task.stages}; there has to be 1 or more"
    if task.steps and task.stages != task.steps[-1].stage + 1:
        yield f"stages: {task.stages}; the last step is of stage {task.steps[-1].stage}, from 0"
    if not task.steps and (task.files or task.stages != 1):
        yield "steps: there has to be 1 or more, or else an image and 1 stage"
    for place, step in enumerate(task.steps):
        where = f"steps.{place}"
        if not 0 <= step.stage < task.stages:
            yield f"{where}.stage: {step.stage} is none of the {task.stages} stages"
        if place and step.stage < task.steps[place - 1].stage:
            yield f"{where}.stage: {step.stage} comes after stage {task.steps[place - 1].stage}"
        if not step.command.strip() or "\0" in step.command:
            yield f"{where}.command: is empty, or has a null character"
        yield from (f"{where}.{problem}" for problem in _of_slots(task, step))


def _of_slots(task: SweTask, step: Step) -> Iterator[str]:
    names = [slot.name for slot in step.slots]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        yield f"slots: {twice[0]!r} occurs more than once"
    if {*names} != step.right.keys():
        yield f"right: has values of {', '.join(step.right) or 'nothing'}; the slots are {', '.join(names) or 'none'}"
        return
    for slot in step.slots:
        right = step.right[slot.name]
        if not re.fullmatch(r"\w+", slot.name) or f"{{{slot.name}}}" not in step.command:
            yield f"slots: {{{slot.name}}} is not in the command"
        if not right or right != right.strip() or "\0" in right:
            yield f"right.{slot.name}: {right[:60]!r} is empty, or has spaces around it"
        if slot.check not in task.checks:
            yield f"slots: there is no check {slot.check!r}"
        elif task.checks[slot.check].stage != step.stage:
            yield f"slots: check {slot.check!r} is of another stage"


def _of_facts(task: SweTask) -> Iterator[str]:
    for name, fact in task.facts.items():
        if fact.id != name:
            yield f"facts.{name}.id: is {fact.id!r}"
        if not fact.text.strip():
            yield f"facts.{name}.text: is empty"
        if not 0 <= fact.since < task.stages:
            yield f"facts.{name}.since: {fact.since} is none of the {task.stages} stages"
        if fact.until is not None and not fact.since < fact.until < task.stages:
            yield f"facts.{name}.until: {fact.until} is no stage after {fact.since}"


def _of_checks(task: SweTask) -> Iterator[str]:
    if task.steps and not task.checks:
        yield "checks: there has to be 1 or more"
    asked = Counter(slot.check for step in task.steps for slot in step.slots)
    for name, check in task.checks.items():
        if check.id != name:
            yield f"checks.{name}.id: is {check.id!r}"
        if asked[name] != 1:
            yield f"checks.{name}: {asked[name]} slots ask it; it has to be 1"
        if not check.text.strip():
            yield f"checks.{name}.text: is empty"
        if not 0 <= check.chance <= 1:
            yield f"checks.{name}.chance: {check.chance} is not in [0, 1]"
        missing = [need for need in check.needs if need not in task.facts]
        if missing or not check.needs:
            yield f"checks.{name}.needs: there is no fact {', '.join(map(repr, missing)) or 'named'}"
        for fact in (task.facts[need] for need in check.needs if not missing):
            if fact.since > check.stage:
                yield f"checks.{name}.needs: {fact.id!r} is told after stage {check.stage}"
            if fact.until is not None and fact.until <= check.stage:
                yield f"checks.{name}.needs: {fact.id!r} does not hold any more at stage {check.stage}"
