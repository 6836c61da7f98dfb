"""Load tasks of the swe track."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ..folded import FoldedTask
from ..row_files import rows_of
from ..task import TaskError
from ..task_files import each_line, is_ours, task_in
from .bugs import BUGS
from .generator import SHIPPED, each_task
from .rows import task_of
from .task import SweTask
from .validation import check_task

TRACK = "swe"
REPAIRS = "repairs"
ROWS = "rows:"
MOST_VARIANTS = 1_000


def load_swe(source: str, *, groups: Collection[str] | None = None) -> Sequence[FoldedTask]:
    """Return the tasks that a source names, those of ``groups`` where given.

    ``source`` is ``repairs``, the variants of each bug that ship; ``generated:VARIANTS`` or
    ``generated:VARIANTS@SEED``, so many other variants of each bug; ``rows:FILE``, rows of SWE-bench or SWE-Gym as
    JSON, JSONL or parquet; or a file that ``data generate`` has written. Raises TaskError.
    """
    wanted, seen, folded = None if groups is None else set(groups), dict[str, None](), list[FoldedTask]()
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
        raise TaskError(f"{source}: no group {', '.join(unknown)}; there are {', '.join([*seen][:40])}")
    return folded


def _each_task(source: str) -> Iterator[SweTask]:
    if source == REPAIRS:
        return each_task(SHIPPED, 0)
    if source.startswith(ROWS):
        return _of_rows(Path(source.removeprefix(ROWS)))
    if Path(source).is_file():
        return _of_file(Path(source))
    numbers = re.fullmatch(r"generated:([0-9]{1,9})(?:@([0-9]{0,18}))?", source)
    if numbers is None or not 1 <= int(numbers[1]) <= MOST_VARIANTS:
        raise TaskError(
            f"{source}: write {REPAIRS}; generated:VARIANTS@SEED with 1 to {MOST_VARIANTS:,} variants of each of the "
            f"{len(BUGS)} bugs; {ROWS}FILE with rows of SWE-bench or SWE-Gym; or a file that "
            f"`data generate --track {TRACK}` has written"
        )
    return each_task(int(numbers[1]), int(numbers[2] or 0))


def _of_rows(path: Path) -> Iterator[SweTask]:
    if not path.is_file():
        raise TaskError(f"{ROWS}{path}: there is no such file")
    for position, row in enumerate(rows_of(path)):
        yield task_of(row, where=f"{path}: row {position}")


def _of_file(path: Path) -> Iterator[SweTask]:
    try:
        with path.open(encoding="utf-8") as file:
            for position, row in enumerate(each_line(file)):
                where = f"{path}: row {position}"
                if not is_ours(row):
                    advice = f"play rows of SWE-bench or SWE-Gym by --data {ROWS}{path}"
                    raise TaskError(f"{where}: was not written by `data generate --track {TRACK}`; {advice}")
                task = task_in(row, SweTask, track=TRACK, where=where)
                check_task(task, where=where)
                yield task
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is not UTF-8 text ({error})") from None
    except ValueError as error:
        raise error if isinstance(error, TaskError) else TaskError(f"{path}: is not JSON: {error}") from None
