"""What a reward model learns from and is judged on: one row for each write, labelled by the environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ...data.scenario import Record
from ...policies.lm import Message
from ...policies.memory import MemoryEvent

Label = Literal["SAFE", "HARMFUL"]


class RowError(ValueError):
    """Say what is wrong with a file of rows, naming the file and the line."""


def topic(info: str) -> str:
    """Return what an info type is about: its first word."""
    return info.split("_")[0]


class Heard(Record):
    """One message that left the buffer."""

    role: Literal["user", "assistant"]
    content: str


class Fact(Record):
    """A state of the user that the evicted messages or the old memory told, and that a later question asks for."""

    info: str
    """Its info type, as in the scenario."""
    lost: bool
    """Whether it cannot be answered from the new memory any more."""

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
    evicted: list[Heard]
    before: list[str]
    """Memories before the write, one line each, oldest first."""
    after: list[str]
    """Memories after it."""
    facts: list[Fact]
    """Empty where nothing was at stake."""

    @property
    def label(self) -> Label:
        """HARMFUL when a fact was lost."""
        return "HARMFUL" if any(fact.lost for fact in self.facts) else "SAFE"

    @property
    def event(self) -> MemoryEvent:
        """The write itself, all that a reward model sees."""
        evicted = tuple(Message(message.role, message.content) for message in self.evicted)
        return MemoryEvent(evicted, tuple(self.before), tuple(self.after))


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(row.model_dump_json() + "\n")


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file, in its order. Raises RowError for a line that is none, and for an empty file."""
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield Row.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "line"
                raise RowError(f"{path}:{number}: {where}: {first['msg']}") from None
    if not number:
        raise RowError(f"{path}: has no rows")
