"""Load histories that ``data import`` has written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from ..folded import FoldedTask
from ..sources import folded_of
from ..task import TaskError
from ..task_files import read_tasks
from .task import ConversationTask, problems

TRACK = "conversations"
_OTHERWISE = "; `mnemotune data import --from chat|locomo|longmemeval FILE --out OUT` makes such a file"


def load_conversations(source: str, *, groups: Collection[str] | None = None) -> list[FoldedTask]:
    """Return the histories of a file that ``data import`` has written, those of ``groups`` where given.

    Each is folded as soon as it is read. Raises TaskError naming the file, the row and the field.
    """
    path = Path(source)
    if not path.is_file():
        raise TaskError(f"{source}: no such file{_OTHERWISE}")
    return folded_of(source, _checked(path), groups)


def _checked(path: Path) -> Iterator[ConversationTask]:
    for task, where in read_tasks(path, ConversationTask, track=TRACK, otherwise=_OTHERWISE, command="data import"):
        if (problem := next(problems(task), None)) is not None:
            raise TaskError(f"{where}: {problem}")
        yield task
