"""Files of tasks that were made: one task a line, in a form of our own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from .record import first_problem
from .task import Task, TaskError
from .whole_files import replacing

OURS = "mnemotune"
"""The key of a line's track; its task stands under ``task``."""
T = TypeVar("T")


def write_tasks(path: Path, tasks: Iterable[Task], *, track: str) -> None:
    """Write tasks, each a dataclass, one a line; the file is whole or not there."""
    with replacing(path) as file:
        for task in tasks:
            values = _adapter(type(task)).dump_python(task, mode="json")
            file.write(json.dumps({OURS: track, "task": values}, ensure_ascii=False).encode() + b"\n")


def read_tasks(
    path: Path, kind: type[T], *, track: str, otherwise: str = "", command: str | None = None
) -> Iterator[tuple[T, str]]:
    """Yield the tasks of a file that ``write_tasks`` has written, and where each stands: the file and the row.

    Raises TaskError; of a file that was not written so, it says ``otherwise``, what to do with it. ``command`` is what
    writes such files; None: ``data generate``.
    """
    writer = command or f"data generate --track {track}"
    try:
        with path.open(encoding="utf-8-sig") as file:
            for position, row in enumerate(each_line(file)):
                where = f"{path}: row {position}"
                if not is_ours(row):
                    raise TaskError(f"{where}: was not written by `{writer}`{otherwise}")
                yield task_in(row, kind, track=track, where=where), where
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is not UTF-8 text ({error})") from None
    except ValueError as error:
        raise error if isinstance(error, TaskError) else TaskError(f"{path}: is not JSON: {error}") from None


def is_ours(row: object) -> bool:
    """Tell whether a row is a line of ``write_tasks``."""
    return isinstance(row, dict) and OURS in row


def task_in(row: Any, kind: type[T], *, track: str, where: str, strict: bool = False) -> T:
    """Return the task of a line; where ``strict``, no text is taken for a number, nor a number for a truth value.

    Raises TaskError, beginning with ``where``, when it is another track's or broken.
    """
    if row[OURS] != track:
        raise TaskError(f"{where}: is a task of the track {str(row[OURS])[:60]!r}, not of {track}")
    form: Any = kind
    try:
        task: T = _adapter(form).validate_json(json.dumps(row.get("task")), strict=strict)
    except ValidationError as error:
        problem = first_problem(error, whole="task")
        if error.errors()[0]["type"] == "json_invalid":
            problem = "task: half a character (a lone surrogate) is in a text"
        raise TaskError(f"{where}: {' '.join(problem.split())}") from None
    return task


def each_line(file: IO[str]) -> Iterator[Any]:
    """Yield what the lines of a JSONL file hold, empty ones left out. Raises ValueError naming the line."""
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number}: {error}") from None


@lru_cache(maxsize=16)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
