"""Load tasks of the web track."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ..folded import FoldedTask
from ..sources import folded_of, numbers_of
from ..task import TaskError
from ..task_files import read_tasks
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
    return folded_of(source, _each_task(source), instances, noun="instance")


def _each_task(source: str) -> Iterator[WebTask]:
    if source == NAME:
        return each_task(SHIPPED, 0)
    if source.startswith(SCHEME):
        return tasks_of_checkout(source)
    if Path(source).is_file():
        return _of_file(Path(source))
    if numbers := numbers_of(source, most=MOST_INSTANCES):
        return each_task(*numbers)
    raise TaskError(
        f"{source}: write {NAME}, generated:INSTANCES@SEED with at most {MOST_INSTANCES:,} instances, "
        f"{SCHEME}PATH of a checkout, or a file that `data generate --track {TRACK}` has written"
    )


def _of_file(path: Path) -> Iterator[WebTask]:
    for task, where in read_tasks(path, WebTask, track=TRACK):
        check_task(task, where=where)
        yield task
