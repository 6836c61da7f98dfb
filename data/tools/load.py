"""Load tasks of the tools track, and open the worlds that they play in."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ..folded import FoldedTask
from ..sources import folded_of, numbers_of
from ..task import TaskError
from ..task_files import read_tasks
from .row import Row
from .task import ToolsTask
from .tau2 import open_checkout, places_of, rows_of
from .tau2_tasks import chain_of, task_of
from .validation import check_task
from .workshop.database import domain_of
from .workshop.stories import NAME, Caller, across, inside
from .world import World

TRACK = "tools"
ACROSS = "tau2-across:"
SHIPPED = 40
"""Customers of the workshop that ships."""
MOST_CUSTOMERS = 10_000

_BRANCH = re.compile(rf"{NAME}:([0-9]{{1,18}}):([0-9]{{1,9}})")
_log = logging.getLogger(__name__)


def load_tools(source: str, *, customers: Collection[str] | None = None) -> Sequence[FoldedTask]:
    """Return the tasks that a source names, those of ``customers`` where given.

    ``source`` is ``workshop``, the customers that ship; ``generated:CUSTOMERS`` or ``generated:CUSTOMERS@SEED``, other
    customers of the workshop; ``tau2:PATH`` or ``tau2:PATH/DOMAIN``, the dialogues of a checkout of tau2-bench;
    ``tau2-across:PATH`` or ``tau2-across:PATH/DOMAIN``, those of one customer as calls one after another; or a file
    that ``data generate`` has written. Raises TaskError.
    """
    return folded_of(source, _each_task(source), customers, noun="customer")


def open_world(task: ToolsTask) -> World:
    """Return a world of its own for a task, as it is before any dialogue. Raises TaskError."""
    if task.domain.startswith("tau2:"):
        place = Path(task.domain.removeprefix("tau2:"))
        return open_checkout(place.parent, place.name, task.row)
    numbers = _BRANCH.fullmatch(task.domain)
    if numbers is None:
        raise TaskError(f"{task.id}: domain: there is no {task.domain}; it is {NAME}:SEED:BRANCH, or tau2:PATH/DOMAIN")
    return domain_of(int(numbers[1]), int(numbers[2])).open()


def _each_task(source: str) -> Iterator[ToolsTask]:
    if source == NAME:
        return _generated(SHIPPED, 0)
    if source.startswith("tau2:"):
        return _of_checkout(source)
    if source.startswith(ACROSS):
        return _chains_of(source)
    if Path(source).is_file():
        return _of_file(Path(source))
    if numbers := numbers_of(source, most=MOST_CUSTOMERS):
        return _generated(*numbers)
    raise TaskError(
        f"{source}: write {NAME}, generated:CUSTOMERS@SEED with at most {MOST_CUSTOMERS:,} customers, "
        "tau2:PATH or tau2-across:PATH of a checkout, or a file that `data generate --track tools` has written"
    )


def _generated(customers: int, seed: int) -> Iterator[ToolsTask]:
    for number in range(customers):
        caller = Caller.of(seed, number)
        yield inside(caller)
        yield across(caller)


def _of_file(path: Path) -> Iterator[ToolsTask]:
    for task, where in read_tasks(path, ToolsTask, track=TRACK):
        numbers = _BRANCH.fullmatch(task.domain)
        if numbers is None:  # a file of tasks must not say which code is run
            raise TaskError(f"{where}: domain: is not of {NAME}; play a checkout by --data tau2:PATH")
        check_task(task, seed=int(numbers[1]), branch=int(numbers[2]), where=where)
        yield task


def _of_checkout(source: str) -> Iterator[ToolsTask]:
    """Yield the tasks of a checkout whose plans have something to remember; the others are named."""
    for checkout, domain in places_of(source):
        idle = []
        for row in rows_of(checkout, domain):
            task = task_of(row, checkout, domain)
            if task.checks:
                yield task
            else:
                idle.append(row.id)
        if idle:
            _log.warning("%s: %d tasks of %s need no memory: %s", source, len(idle), domain, ", ".join(idle))


def _chains_of(source: str) -> Iterator[ToolsTask]:
    """Yield a task for each customer who calls again and needs something of an earlier call; the others are counted."""
    for checkout, domain in places_of(source):
        rows: dict[str, list[Row]] = {}
        for row in rows_of(checkout, domain):
            rows.setdefault(task_of(row, checkout, domain).group, []).append(row)
        again = {group: calls for group, calls in rows.items() if len(calls) > 1}
        idle = 0
        for group, calls in again.items():
            task = chain_of(calls, checkout, domain, group=group)
            if any(task.facts[need].since < check.stage for check in task.checks.values() for need in check.needs):
                yield task
            else:
                idle += 1
        once = len(rows) - len(again)
        if once or idle:
            left_out = "%s: of %s, %d customers who call once are left out, and %d who need nothing of an earlier call"
            _log.warning(left_out, source, domain, once, idle)
