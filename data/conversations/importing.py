"""Bring conversations into a file of the track's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ..task import TaskError
from ..task_files import write_tasks
from .chat import By, History, read_histories, read_questions, task_of
from .load import TRACK
from .locomo import read_locomo
from .longmemeval import read_longmemeval
from .omissions import Omissions
from .task import ConversationTask, problems

Form = Literal["chat", "locomo", "longmemeval"]
FORMS: tuple[Form, ...] = get_args(Form)
_READERS = {"locomo": read_locomo, "longmemeval": read_longmemeval}


@dataclass(slots=True)
class Import:
    """What has come in so far, and what was left out."""

    out: Path
    omissions: Omissions
    names: set[str] = field(default_factory=set)
    """Of the histories."""
    groups: set[str] = field(default_factory=set)
    histories: int = 0
    sessions: int = 0
    messages: int = 0
    questions: int = 0
    unasked: int = 0
    """Histories without a question, which are left out."""

    def counted(self, tasks: Iterable[ConversationTask]) -> Iterator[ConversationTask]:
        """Yield those that something is asked of, and count all."""
        for task in tasks:
            problem = "occurs twice; names must be distinct" if task.id in self.names else next(problems(task), None)
            if problem is not None:
                self.omissions.leave_out(task.id, problem)
                continue
            self.names.add(task.id)
            if not task.questions:
                self.unasked += 1
                continue
            self.groups.add(task.group)
            self.histories += 1
            self.sessions += len(task.sessions)
            self.messages += sum(len(session.utterances) for session in task.sessions)
            self.questions += len(task.questions)
            yield task

    def write(self, tasks: Iterable[ConversationTask]) -> None:
        """Write the file, whole or not at all. Raises TaskError where nothing is asked of any history."""
        write_tasks(self.out, self._some(tasks), track=TRACK)

    def _some(self, tasks: Iterable[ConversationTask]) -> Iterator[ConversationTask]:
        yield from self.counted(tasks)
        if not self.histories:
            broken = self.omissions.broken
            why = f": {broken[0]}" if broken else ""
            raise TaskError(f"{self.out} is not written: there is no history with a question{why}")

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "out": str(self.out),
            "groups": len(self.groups),
            "histories": self.histories,
            "sessions": self.sessions,
            "messages": self.messages,
            "questions": self.questions,
            "without_questions": self.unasked,
            "passed_over": dict(sorted(self.omissions.passed_over.items())),
            "left_out": list(self.omissions.broken),
        }


def import_benchmark(form: Form, path: Path, coming: Import) -> None:
    """Bring in a benchmark's file, which has its own questions. Raises TaskError."""
    coming.write(_READERS[form](path, coming.omissions))


def import_chat(path: Path, questions: Path, coming: Import, *, by: By = "user") -> list[History]:
    """Bring in a chat log with questions of one's own; return its histories. Raises TaskError."""
    histories = read_histories(path, coming.omissions, by=by)
    asked = read_questions(questions, histories, coming.omissions)
    coming.write(task_of(history, asked.get(history.group, ())) for history in histories)
    return histories
