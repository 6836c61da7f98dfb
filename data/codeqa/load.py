"""Load tasks of the code questions from the standard library, a source tree or MemGym's rows."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ..folded import FoldedTask
from ..json_files import each_row
from ..task import TaskError
from ..task_files import each_line, is_ours, task_in
from .generator import CodeGenerator, Shape
from .memgym import task_of
from .task import CodeTask, problems
from .tree import SourceTree, standard_library

TRACK = "codeqa"
MOST_TASKS = 10_000
"""Tasks that are made of a tree at most: of 10,000 tokens each, it takes ten minutes."""
LEAST_TOKENS, MOST_TOKENS = 1_000, 2_000_000
"""Size of a generated task."""

_SOURCE = re.compile(r"(?P<tree>.+?)(?::(?P<tasks>\d{1,9})(?:@(?P<seed>\d{0,18}))?(?::(?P<tokens>\d{1,9}))?)?")
_GRAMMAR = "write generated:TASKS@SEED:TOKENS or FOLDER:TASKS@SEED:TOKENS, for example generated:40@7:10000"

_log = logging.getLogger(__name__)


def load_folded(source: str, *, groups: Collection[str] | None = None) -> list[FoldedTask]:
    """Load the tasks that ``source`` names, those of ``groups`` where given, folded one after another.

    ``source`` is one of

    - ``generated:TASKS``, ``generated:TASKS@SEED`` or ``generated:TASKS@SEED:TOKENS``: made on the spot of the running
      interpreter's standard library, always the same for the same interpreter and numbers;
    - a folder, alone or with the same numbers after it: made of its Python files; alone, one task a group;
    - a ``.json`` or ``.jsonl`` file with MemGym's rows, or with tasks that ``write_tasks`` wrote.

    Raises TaskError naming the source, the row and the field.
    """
    path = Path(source)
    if path.is_file():
        return _checked(source, _read(path), groups)
    parts = _SOURCE.fullmatch(source)
    if parts is None:
        raise TaskError(f"{source}: {_GRAMMAR}")
    return _generated(source, parts, groups)


def _generated(source: str, parts: re.Match[str], groups: Collection[str] | None) -> list[FoldedTask]:
    whole = Path(source).is_dir()
    shape = Shape(tokens=int(parts["tokens"] or Shape().tokens))
    if not whole and not LEAST_TOKENS <= shape.tokens <= MOST_TOKENS:
        raise TaskError(f"{source}: a task has {LEAST_TOKENS:,} to {MOST_TOKENS:,} tokens")
    tree = _tree(source, source if whole else parts["tree"], counted=parts["tasks"] is not None)
    generator = CodeGenerator(tree, 0 if whole else int(parts["seed"] or 0), Shape() if whole else shape)
    count = len(generator.groups) if whole or parts["tasks"] is None else int(parts["tasks"])
    if not 1 <= count <= MOST_TASKS:
        raise TaskError(f"{source}: 1 to {MOST_TASKS:,} tasks are made on the spot")
    names = [generator.group(index) for index in range(count)]
    _refuse_unknown(source, names, groups)
    return [
        FoldedTask.of(generator.task(index)) for index, name in enumerate(names) if groups is None or name in groups
    ]


def _tree(source: str, name: str, *, counted: bool) -> SourceTree:
    if name == "generated" and counted:
        return standard_library()
    folder = Path(name)
    if not folder.is_dir():
        raise TaskError(f"{source}: no such file or folder; {_GRAMMAR}")
    tree = SourceTree.read(folder, name=folder.resolve().name)
    for problem in tree.unread:
        _log.warning("left out: %s", problem)
    return tree


def _read(path: Path) -> Iterator[FoldedTask]:
    """Yield the tasks of a file's rows, and say which rows have none and why."""
    left_out, places = [], dict[str, int]()
    for position, row in enumerate(_rows(path)):
        where = f"{path}: row {position}"
        task = _task(row, where)
        if isinstance(task, str):
            left_out.append(f"{where}: left out: {task}")
        elif places.setdefault(task.id, position) != position:
            raise TaskError(f"{where}: id: {task.id!r} is that of row {places[task.id]} too; ids must be distinct")
        else:
            yield FoldedTask.of(task)
    for line in left_out:
        _log.warning("%s", line)


def _task(row: Any, where: str) -> CodeTask | str:
    """Return the task of a row, or why it has none."""
    if not is_ours(row):
        return task_of(row, where=where)
    task = task_in(row, CodeTask, track=TRACK, where=where, strict=True)
    if (problem := next(problems(task), None)) is not None:
        raise TaskError(f"{where}: {' '.join(problem.split())}")
    return task


def _rows(path: Path) -> Iterator[Any]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from each_line(file) if path.suffix.lower() == ".jsonl" else each_row(file)
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is not UTF-8 text ({error})") from None
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path}: is not JSON: {error}") from None


def _checked(source: str, tasks: Iterator[FoldedTask], groups: Collection[str] | None) -> list[FoldedTask]:
    every = list(tasks)
    if not every:
        raise TaskError(f"{source}: no row gives a task; the warnings above say why")
    _refuse_unknown(source, [task.group for task in every], groups)
    return [task for task in every if groups is None or task.group in groups]


def _refuse_unknown(source: str, names: Collection[str], groups: Collection[str] | None) -> None:
    known = dict.fromkeys(names)
    if unknown := sorted(set(groups or ()) - known.keys()):
        raise TaskError(f"{source}: no group {', '.join(unknown)}; there are {', '.join(known)}")
