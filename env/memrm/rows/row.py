"""What a reward model learns from and is judged on: one row for each write, labelled by the environment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from ....data.dialogue.scenario import Record
from ....policies.lm import Message
from ....policies.memory import MemoryEvent
from ...episode import lines_beyond

Label = Literal["SAFE", "HARMFUL"]
Kind = TypeVar("Kind", bound=BaseModel)


class RowError(ValueError):
    """Say what is wrong with a file of rows, naming the file and the line."""


def topic(info: str) -> str:
    """Return what an info type is about: its first word."""
    return info.split("_")[0]


class EvictedMessage(Record):
    """One message that left the buffer."""

    role: Literal["user", "assistant"]
    content: str


class FactLabel(Record):
    """A state of the user that the evicted messages or the old memory told, and that a question asks for.

    Of the old memory's only those count that the write touched: no other can be lost by it.
    """

    info: str
    """Its info type, as in the scenario."""
    lost: bool | None
    """Whether it cannot be answered from the new memory; None where the model wavers."""
    message: int | None = None
    """0-based place of the evicted message that told it; None where the old memory did."""
    sentence: int | None = None
    """0-based place of the one sentence of that message that tells it; None where none or several do."""
    line: int | None = None
    """0-based place in the old memory of the one removed line that tells it; None where none or several do."""

    @property
    def topic(self) -> str:
        """The first word of the info type."""
        return topic(self.info)


class Row(Record):
    """One write of one policy, and what became of the facts at stake."""

    user: str
    policy: str
    """The policy's key."""
    period: int
    """0-based."""
    write: int
    """0-based place among the episode's writes."""
    evicted: list[EvictedMessage]
    before: list[str]
    """Memories before the write, one line each, oldest first."""
    after: list[str]
    """Memories after it."""
    facts: list[FactLabel]
    """Empty where nothing was at stake."""

    @property
    def label(self) -> Label:
        """HARMFUL when a fact was lost for certain."""
        return "HARMFUL" if any(fact.lost for fact in self.facts) else "SAFE"

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
        """The write itself, all that a reward model sees."""
        evicted = tuple(Message(message.role, message.content) for message in self.evicted)
        return MemoryEvent(evicted, tuple(self.before), tuple(self.after))


def write_rows(path: Path, rows: Iterable[BaseModel]) -> str:
    """Write rows or other records as JSON lines, all of them or none; return the SHA-256 of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new, digest = path.with_name(f"{path.name}.new"), hashlib.sha256()
    try:
        with new.open("wb") as file:
            for record in rows:
                line = record.model_dump_json().encode() + b"\n"
                digest.update(line)
                file.write(line)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return digest.hexdigest()


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file, in its order. Raises RowError for a line that is none, and for an empty file."""
    return read_records(path, Row)


def read_records(path: Path, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the records of a file of JSON lines. Raises RowError for a line that is none, and for an empty file."""
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield kind.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "line"
                raise RowError(f"{path}:{number}: {where}: {first['msg']}") from None
    if not number:
        raise RowError(f"{path}: has no rows")
