"""Load tasks of the swe track."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ..folded import FoldedTask
from ..row_files import rows_of
from ..sources import folded_of, numbers_of
from ..task import TaskError
from ..task_files import read_tasks
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
    return folded_of(source, _each_task(source), groups)


def _each_task(source: str) -> Iterator[SweTask]:
    if source == REPAIRS:
        return each_task(SHIPPED, 0)
    if source.startswith(ROWS):
        return _of_rows(Path(source.removeprefix(ROWS)))
    if Path(source).is_file():
        return _of_file(Path(source))
    if numbers := numbers_of(source, most=MOST_VARIANTS):
        return each_task(*numbers)
    raise TaskError(
        f"{source}: write {REPAIRS}; generated:VARIANTS@SEED with 1 to {MOST_VARIANTS:,} variants of each of the "
        f"{len(BUGS)} bugs; {ROWS}FILE with rows of SWE-bench or SWE-Gym; or a file that "
        f"`data generate --track {TRACK}` has written"
    )


def _of_rows(path: Path) -> Iterator[SweTask]:
    if not path.is_file():
        raise TaskError(f"{ROWS}{path}: there is no such file")
    for position, row in enumerate(rows_of(path)):
        yield task_of(row, where=f"{path}: row {position}")


def _of_file(path: Path) -> Iterator[SweTask]:
    advice = f": play rows of SWE-bench or SWE-Gym by --data {ROWS}{path}"
    for task, where in read_tasks(path, SweTask, track=TRACK, otherwise=advice):
        check_task(task, where=where)
        yield task
