"""What a task of the swe track promises, checked where it comes from a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath

from ..plan import problems_of_plan, problems_of_slots
from ..task import TaskError
from .task import Step, SweTask

MOST_FILE_BYTES = 1_000_000
"""Of all files of a repository together."""
_IMAGE = re.compile(r"(?:[a-z0-9][a-z0-9._/:@-]{0,249})?")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def check_task(task: SweTask, *, where: str) -> None:
    """Check that a task holds together. Raises TaskError, beginning with ``where``, that names the field."""
    for problem in chain(_of_repository(task), _of_plan(task)):
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
        if folder := next((str(parent) for parent in PurePosixPath(path).parents if str(parent) in task.files), None):
            yield f"files: {folder[:60]!r} is a file and a folder"
    if sum(len(text.encode()) for text in task.files.values()) > MOST_FILE_BYTES:
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
    if not _words(task.test_command):
        yield f"test_command: {task.test_command[:60]!r} is empty, or a quote in it has no end"
    if not task.fail_to_pass:
        yield "fail_to_pass: there has to be 1 or more"
    if both := sorted({*task.fail_to_pass} & {*task.pass_to_pass}):
        yield f"pass_to_pass: {both[0][:60]!r} is in fail_to_pass too"


def _words(command: str) -> list[str]:
    """Return the words of a command; none where they cannot be told apart."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _stands_inside(path: str) -> bool:
    parts = path.split("/")
    plain = re.fullmatch(r"[\w./+-]+", path) and not PurePosixPath(path).is_absolute()
    return bool(plain) and not {"", ".", ".."} & {*parts} and not path.startswith("-")


def _of_plan(task: SweTask) -> Iterator[str]:
    if not task.steps:
        if task.files or task.stages != 1 or task.checks:
            yield "steps: there has to be 1 or more, or else an image, 1 stage and no check"
        return
    yield from problems_of_plan(task)
    for place, step in enumerate(task.steps):
        yield from (f"steps.{place}.{problem}" for problem in _of_step(step))


def _of_step(step: Step) -> Iterator[str]:
    if not step.command.strip() or "\0" in step.command:
        yield "command: is empty, or has a null character"
    yield from problems_of_slots(step, step.command)
    for name, right in step.right.items():
        if not right or right != right.strip() or "\0" in right:
            yield f"right.{name}: {right[:60]!r} is empty, or has spaces around it"
