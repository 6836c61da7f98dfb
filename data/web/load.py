"""Load tasks of the web track."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ..folded import FoldedTask
from ..task import TaskError
from ..task_files import each_line, is_ours, task_in
from .checkout import SCHEME, tasks_of_checkout
from .generator import each_task
from .task import WebTask
from .validation import check_task

TRACK = "web"
NAME = "desks"
"""The source of the instances that ship."""
SHIPPED = 36
"""Instances that ship."""
MOST_INSTANCES = 10_000


def load_web(source: str, *, instances: Collection[str] | None = None) -> Sequence[FoldedTask]:
    """Return the tasks that a source names, those of ``instances`` where given.

    ``source`` is ``desks``, the instances that ship; ``generated:INSTANCES`` or ``generated:INSTANCES@SEED``, others of
    the same apps; ``webarena-infinity:PATH`` or ``webarena-infinity:PATH/APP``, tasks without plans of a checkout; or a
    file that ``data generate`` has written. Raises TaskError.
    """
    wanted, seen, folded = None if instances is None else set(instances), dict[str, None](), []
    ids = set[str]()
    for task in _each_task(source):
        if task.id in ids:
            raise TaskError(f"{source}: task {task.id} occurs more than once; ids must be distinct")
        ids.add(task.id)
        seen[task.group] = None
        if wanted is None or task.group in wanted:
            folded.append(FoldedTask.of(task))
    if not ids:
        raise TaskError(f"{source}: has no task")
    if unknown := sorted((wanted or set()) - seen.keys()):
        raise TaskError(f"{source}: no instance {', '.join(unknown)}; there are {', '.join([*seen][:20])}")
    return folded


def _each_task(source: str) -> Iterator[WebTask]:
    if source == NAME:
        return each_task(SHIPPED, 0)
    if source.startswith(SCHEME):
        return tasks_of_checkout(source)
    if Path(source).is_file():
        return _of_file(Path(source))
    numbers = re.fullmatch(r"generated:([0-9]{1,9})(?:@([0-9]{1,18}))?", source)
    if numbers is None or not 1 <= int(numbers[1]) <= MOST_INSTANCES:
        raise TaskError(
            f"{source}: write {NAME}, generated:INSTANCES@SEED with at most {MOST_INSTANCES:,} instances, "
            f"{SCHEME}PATH of a checkout, or a file that `data generate --track {TRACK}` has written"
        )
    return each_task(int(numbers[1]), int(numbers[2] or 0))


def _of_file(path: Path) -> Iterator[WebTask]:
    try:
        with path.open(encoding="utf-8") as file:
            for position, row in enumerate(each_line(file)):
                where = f"{path}: row {position}"
                if not is_ours(row):
                    raise TaskError(f"{where}: was not written by `data generate --track {TRACK}`")
                task = task_in(row, WebTask, track=TRACK, where=where)
                check_task(task, where=where)
                yield task
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is not UTF-8 text ({error})") from None
    except ValueError as error:
        raise error if isinstance(error, TaskError) else TaskError(f"{path}: is not JSON: {error}") from None
