"""What memory brings back for each check, and what the check needs. A forecast of right answers reads no more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import AliasChoices, Field, model_validator

from ....data.record import Record
from ....data.task import Task
from .row import read_records


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What is before a model when a check comes, and what the check needs."""

    check: str
    """The check's id."""
    needs: tuple[tuple[str, ...], ...]
    """For each fact that the check needs and that was heard: the messages that state a fact of its key, newest last."""
    buffered: frozenset[str]
    """Those of the messages that are still in the buffer."""
    lines: tuple[str, ...]
    """Memories that come back."""
    buffer_words: int


class RetrievalRow(Record):
    """The retrieval for one check; texts are places in the log's texts."""

    check: str
    needs: list[list[int]]
    buffered: list[int]
    lines: list[int]
    buffer_words: int
    right: bool | None
    """Whether the model answered rightly; None where nothing could be scored."""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, values: object) -> object:
        """Read logs that name a check by the dialogue's period and question."""
        if not isinstance(values, dict) or "period" not in values or "question" not in values:
            return values
        rest = {name: value for name, value in values.items() if name not in {"period", "question"}}
        return rest | {"check": f"{values['period']}.{values['question']}"}


class RetrievalLog(Record):
    """What one policy's memory brought back for the checks of one task, and how they were answered."""

    group: str = Field(validation_alias=AliasChoices("group", "user"))
    task: str = Field(validation_alias=AliasChoices("task", "user"))
    policy: str
    """The policy's key."""
    memory_score: float | None
    """Of the episode, on-policy; None where it has none."""
    messages: list[str]
    lines: list[str]
    checks: list[RetrievalRow] = Field(validation_alias=AliasChoices("checks", "asked"))

    def retrievals(self) -> Iterator[tuple[Retrieval, bool | None]]:
        """Yield each retrieval, and whether the answer was right."""
        for row in self.checks:
            needs = tuple(tuple(self.messages[i] for i in texts) for texts in row.needs)
            buffered = frozenset(self.messages[i] for i in row.buffered)
            lines = tuple(self.lines[i] for i in row.lines)
            yield Retrieval(row.check, needs, buffered, lines, row.buffer_words), row.right


def retrieval_log(
    task: Task, policy: str, memory_score: float, retrievals: Sequence[Retrieval], right: Sequence[bool | None]
) -> RetrievalLog:
    """Return an episode's log; ``right`` is aligned with ``retrievals``, and a score of NaN becomes None."""
    messages = list(dict.fromkeys(text for retrieval in retrievals for texts in retrieval.needs for text in texts))
    lines = list(dict.fromkeys(line for retrieval in retrievals for line in retrieval.lines))
    message_at, line_at = ({text: i for i, text in enumerate(texts)} for texts in (messages, lines))
    rows = [
        RetrievalRow(
            check=retrieval.check,
            needs=[[message_at[text] for text in texts] for texts in retrieval.needs],
            buffered=sorted(message_at[text] for text in retrieval.buffered),
            lines=[line_at[line] for line in retrieval.lines],
            buffer_words=retrieval.buffer_words,
            right=is_right,
        )
        for retrieval, is_right in zip(retrievals, right, strict=True)
    ]
    score = None if math.isnan(memory_score) else memory_score
    return RetrievalLog(
        group=task.group, task=task.id, policy=policy, memory_score=score, messages=messages, lines=lines, checks=rows
    )


def retrievals_file(rows: Path) -> Path:
    """Return the file of retrieval logs that lies beside a file of rows."""
    return Path(f"{rows}.shown.jsonl")


def read_retrievals(path: Path) -> Iterator[RetrievalLog]:
    """Yield the retrieval logs of a file. Raises RowError for a line that is no log, and for an empty file."""
    return read_records(path, RetrievalLog)
