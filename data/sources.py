"""What all sources of tasks have in common: numbers of tasks that are made, and groups that are wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .folded import FoldedTask
from .task import Task, TaskError

MOST_NAMED = 40
"""Groups that an error names."""


def numbers_of(source: str, *, most: int) -> tuple[int, int] | None:
    """Return the count, up to ``most``, and the seed of ``generated:COUNT@SEED``; None for another source."""
    numbers = re.fullmatch(r"generated:([0-9]{1,9})(?:@([0-9]{0,18}))?", source)
    if numbers is None or not 1 <= int(numbers[1]) <= most:
        return None
    return int(numbers[1]), int(numbers[2] or 0)


def folded_of(
    source: str, tasks: Iterable[Task], groups: Iterable[str] | None, *, noun: str = "group"
) -> list[FoldedTask]:
    """Return a source's tasks, those of ``groups`` where given.

    Raises TaskError where there is none, where an id is not distinct, and where there is no such group.
    """
    wanted, ids, known, folded = None if groups is None else {*groups}, set[str](), dict[str, None](), []
    for task in tasks:
        if task.id in ids:
            raise TaskError(f"{source}: task {task.id} occurs more than once; ids must be distinct")
        ids.add(task.id)
        known[task.group] = None
        if wanted is None or task.group in wanted:
            folded.append(FoldedTask.of(task))
    if not ids:
        raise TaskError(f"{source}: has no task")
    if unknown := sorted((wanted or set()) - known.keys()):
        raise TaskError(f"{source}: no {noun} {', '.join(unknown)}; there are {', '.join([*known][:MOST_NAMED])}")
    return folded
