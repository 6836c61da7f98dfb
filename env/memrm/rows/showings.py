"""What memory showed before each question, and what the question needs: all that a forecast of right answers reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....data.dialogue.scenario import Record
from .row import read_records


@dataclass(frozen=True, slots=True)
class Shown:
    """What is before a model when a question comes, and what it needs for it."""

    period: int
    """0-based."""
    question: int
    """0-based place among the scenario's questions."""
    needs: tuple[tuple[str, ...], ...]
    """Of each state that the question needs and that was told: the user's messages that told it, newest last."""
    buffered: frozenset[str]
    """Those of the messages that the buffer still has."""
    lines: tuple[str, ...]
    """Memories that come back."""
    buffer_words: int


class Asked(Record):
    """One question in one period; texts are places in those of the showing."""

    period: int
    question: int
    needs: list[list[int]]
    buffered: list[int]
    lines: list[int]
    buffer_words: int
    right: bool | None
    """Whether the model answered rightly; None where nothing could be scored."""


class Showing(Record):
    """What one policy's memory showed one user's questions, and how they were answered."""

    user: str
    policy: str
    """The policy's key."""
    memory_score: float | None
    """Of the episode, on-policy; None where it has none."""
    messages: list[str]
    lines: list[str]
    asked: list[Asked]

    def shown(self) -> Iterator[tuple[Shown, bool | None]]:
        """Yield what was shown before each question, and whether the answer was right."""
        for one in self.asked:
            needs = tuple(tuple(self.messages[i] for i in texts) for texts in one.needs)
            buffered = frozenset(self.messages[i] for i in one.buffered)
            lines = tuple(self.lines[i] for i in one.lines)
            yield Shown(one.period, one.question, needs, buffered, lines, one.buffer_words), one.right


def showing_of(
    user: str, policy: str, memory_score: float, shown: Sequence[Shown], right: Sequence[bool | None]
) -> Showing:
    """Return a showing; ``right`` is aligned with ``shown``, and a score of NaN is none."""
    messages = list(dict.fromkeys(text for one in shown for texts in one.needs for text in texts))
    lines = list(dict.fromkeys(line for one in shown for line in one.lines))
    message_at, line_at = ({text: i for i, text in enumerate(texts)} for texts in (messages, lines))
    asked = [
        Asked(
            period=one.period,
            question=one.question,
            needs=[[message_at[text] for text in texts] for texts in one.needs],
            buffered=sorted(message_at[text] for text in one.buffered),
            lines=[line_at[line] for line in one.lines],
            buffer_words=one.buffer_words,
            right=told,
        )
        for one, told in zip(shown, right, strict=True)
    ]
    score = None if math.isnan(memory_score) else memory_score
    return Showing(user=user, policy=policy, memory_score=score, messages=messages, lines=lines, asked=asked)


def shown_file(rows: Path) -> Path:
    """Return the file of showings that lies beside a file of rows."""
    return Path(f"{rows}.shown.jsonl")


def read_showings(path: Path) -> Iterator[Showing]:
    """Yield the showings of a file. Raises RowError for a line that is none, and for an empty file."""
    return read_records(path, Showing)
