"""Labelled writes, a row each: reward models are trained and evaluated on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import AliasChoices, BaseModel, Field, ValidationError, model_validator

from ....data.errors import MnemotuneError
from ....data.record import Record, first_problem
from ....data.whole_files import replacing
from ....policies.lm import Message
from ....policies.memory import MemoryEvent
from ...episode import lines_beyond

Label = Literal["SAFE", "HARMFUL"]
Kind = TypeVar("Kind", bound=BaseModel)


class RowError(MnemotuneError, ValueError):
    """Say what is wrong with a file of rows, naming the file and the line."""


class EvictedMessage(Record):
    """A message that left the buffer; tools count as users, who tell the assistant something."""

    role: Literal["user", "assistant"]
    content: str

    @classmethod
    def of(cls, message: Message) -> EvictedMessage:
        """Return a chat message as it is kept in rows."""
        return cls(role="assistant" if message.role == "assistant" else "user", content=message.text)


class FactLabel(Record):
    """A fact that the evicted messages or the old memory tell, and that a check needs.

    Facts of the old memory count only where the write touched them: it cannot lose any other.
    """

    key: str
    """What the fact is about."""
    fact: str | None = None
    """The fact's id within the task; None in rows that do not name it."""
    topic: str
    lost: bool | None
    """Whether the new memory does not tell it; None where that is not known."""
    message: int | None = None
    """0-based place of the evicted message that tells it; None where the old memory does."""
    sentence: int | None = None
    """0-based place of the only sentence of that message that tells it; None for no sentence, or several."""
    line: int | None = None
    """0-based place in the old memory of the only removed line that tells it; None for no line, or several."""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, values: object) -> object:
        """Read rows that name the dialogue's states, whose topic is their first word."""
        if not isinstance(values, dict) or "info" not in values:
            return values
        info = values["info"]
        return {"key": info, "topic": str(info).split("_")[0]} | {k: v for k, v in values.items() if k != "info"}


class Execution(Record):
    """What the plan's next step showed with a memory that was damaged. No reward model sees any of it."""

    perturbation: str
    """How memory was damaged."""
    recorded: str
    """What the step's slots were answered with the memory that was whole, a line each."""
    proposed: str
    """What they were answered with the memory that was damaged."""
    same: bool
    """Whether the same was observed with both."""


class Row(Record):
    """One write of one policy, and what became of the facts at stake."""

    group: str = Field(validation_alias=AliasChoices("group", "user"))
    """The unit of splits and intervals, such as a user."""
    task: str = Field(validation_alias=AliasChoices("task", "user"))
    """The task's id."""
    policy: str
    """The policy's key."""
    stage: int = Field(validation_alias=AliasChoices("stage", "period"))
    """0-based."""
    write: int
    """0-based place among the episode's writes."""
    evicted: list[EvictedMessage]
    before: list[str]
    """Memories before the write, a line each, oldest first."""
    after: list[str]
    """Memories after the write."""
    facts: list[FactLabel]
    """Empty where nothing was at stake."""
    execution: Execution | None = None
    """None where the label rests on facts alone."""

    @property
    def label(self) -> Label:
        """HARMFUL where something else was observed in the next step, or, without one, a fact is lost for certain."""
        if self.execution is not None:
            return "SAFE" if self.execution.same else "HARMFUL"
        return "HARMFUL" if any(fact.lost for fact in self.facts) else "SAFE"

    @property
    def harmful(self) -> bool:
        """Whether the write is labelled HARMFUL."""
        return self.label == "HARMFUL"

    @property
    def removed(self) -> list[str]:
        """The memories that are there before the write and not after it."""
        return lines_beyond(self.before, self.after)

    @property
    def added(self) -> list[str]:
        """The memories that are there after the write and not before it."""
        return lines_beyond(self.after, self.before)

    @property
    def event(self) -> MemoryEvent:
        """The write itself. A reward model sees nothing else."""
        evicted = tuple(Message(message.role, message.content) for message in self.evicted)
        return MemoryEvent(evicted, tuple(self.before), tuple(self.after))


def write_rows(path: Path, rows: Iterable[BaseModel]) -> str:
    """Write records as JSON lines, all of them or none. Return the SHA-256 of the file."""
    digest = hashlib.sha256()
    with replacing(path) as file:
        for record in rows:
            line = record.model_dump_json().encode() + b"\n"
            digest.update(line)
            file.write(line)
    return digest.hexdigest()


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file, in its order. Raises RowError for a line that is no row, and for an empty file."""
    return read_records(path, Row)


def read_records(path: Path, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the records of a file of JSON lines. Raises RowError for another line, and for an empty file."""
    found = False
    if "\0" in str(path):
        raise RowError(f"{str(path)!r}: is no name of a file")
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            found = True
            try:
                yield kind.model_validate_json(line)
            except ValidationError as error:
                raise RowError(f"{path}:{number}: {first_problem(error, whole='line')}") from None
    if not found:
        raise RowError(f"{path}: has no rows")
