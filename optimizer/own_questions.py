"""Bring in a chat log with questions that a model makes on it, within a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.conversations.chat import By, read_histories, task_of
from ..data.conversations.importing import Import
from ..data.task import TaskError
from ..data.whole_files import write_whole
from ..env.conversations.questions import MadeQuestions, as_lines, make_questions, most_calls
from ..policies.lm import BudgetExhausted, EndpointDown, LanguageModel, Ledger
from ..policies.lm.base import to_json
from .config import Config, GenerationConfig
from .generate import paid_once, parts_of

Tell = Callable[[int, int, Ledger], None]
"""Hears how many questions are kept and dropped so far, and the spend."""


@dataclass(frozen=True, slots=True)
class QuestionOrder:
    """What is to be made, and where."""

    config: Config
    chat: Path
    wanted: int
    by: By = "user"

    @property
    def most_calls(self) -> int:
        """The most calls that it takes."""
        return most_calls(self.wanted)


@dataclass(frozen=True, slots=True)
class QuestionDelivery:
    """The questions, and what they took."""

    questions: MadeQuestions
    ledger: Ledger
    file: Path
    """The kept questions, a line each, to be looked through and changed."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        total = self.ledger.total
        return {
            "kept": self.questions.count,
            "dropped": [dropped.as_json() for dropped in self.questions.dropped],
            "questions_file": str(self.file),
            "calls": total.calls,
            "cached": total.cached,
            "cost_usd": total.cost_usd,
        }


def import_with_questions(order: QuestionOrder, coming: Import, *, tell: Tell) -> QuestionDelivery:
    """Read a chat, have questions made on it, and write both; what is paid for is kept beside the file.

    Raises TaskError where nothing is left, or other questions are where they go, which a person may have changed, and
    BudgetExhausted and EndpointDown, which say how to go on.
    """
    histories = read_histories(order.chat, coming.omissions, by=order.by)
    tasks, parts = [task_of(history, ()) for history in histories], parts_of(coming.out)

    async def make(model: LanguageModel, spent: Callable[[], Ledger]) -> MadeQuestions:
        return await make_questions(
            tasks,
            order.wanted,
            model,
            templates=order.config.templates,
            tell=lambda kept, dropped: tell(kept, dropped, spent()),
        )

    section = order.config.generation or GenerationConfig()
    try:
        questions, ledger = paid_once(order.config, parts, section.budget, make)
    except BudgetExhausted as error:
        raise BudgetExhausted(_stopped(error, parts, "with a budget of its own")) from None
    except EndpointDown as error:
        raise EndpointDown(_stopped(error, parts, "once the endpoint answers")) from error
    for dropped in questions.dropped if not questions.count else ():
        coming.omissions.broken.append(f"a question on {dropped.group}: {dropped.reason}")
    file = coming.out.with_suffix(".questions.jsonl")
    text = "".join(f"{to_json(line).decode()}\n" for line in as_lines(questions))
    if questions.count and file.exists() and file.read_bytes() != text.encode():
        raise TaskError(
            f"{file}: has other questions than were made now, which you may have changed: import with that file "
            f"(--questions {file}), remove it, or write to another --out; nothing is written, and paid replies are kept"
        )
    coming.write(task_of(history, questions.kept.get(history.group, ())) for history in histories)
    write_whole(file, text)
    return QuestionDelivery(questions, ledger, file)


def _stopped(error: Exception, parts: Path, when: str) -> str:
    return f"{error}; the replies are kept in {parts}: the same command goes on from there {when}"
