"""The facts that the lines of a memory can hold: those of the messages that the lines were written from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....data.task import Fact
from ....policies.memory import MemoryEvent

State = tuple[str, str]
"""A fact's key and text: where a value comes back after another, it is the same state."""


def state_of(fact: Fact) -> State:
    """Return the state that a fact describes."""
    return fact.key, fact.text


@dataclass(frozen=True, slots=True)
class Line:
    """A line of memory, and the states that it can hold."""

    text: str
    states: frozenset[State]


@dataclass(frozen=True, slots=True)
class Change:
    """The memory before and after one write."""

    before: tuple[Line, ...]
    after: tuple[Line, ...]

    @property
    def touched(self) -> frozenset[State]:
        """The states whose lines, or whose order of lines, the write changed."""
        states = frozenset[State]().union(*(line.states for line in (*self.before, *self.after)))
        return frozenset(s for s in states if lines_with(self.before, s) != lines_with(self.after, s))


def lines_with(lines: Sequence[Line], state: State) -> list[str]:
    """Return the lines that can hold a state, in their order."""
    return [line.text for line in lines if state in line.states]


def trace(writes: Sequence[MemoryEvent], states: Sequence[Iterable[State]]) -> list[Change]:
    """Return what each write changed; ``states`` are those of each write's evicted messages.

    A new line can also hold what the removed lines held.
    """
    changes = []
    lines: tuple[Line, ...] = ()
    for write, evicted in zip(writes, states, strict=True):
        before, removed = lines, list(lines)
        kept: list[Line | None] = []
        for text in write.after:
            same = next((line for line in removed if line.text == text), None)
            if same is not None:
                removed.remove(same)
            kept.append(same)
        new = frozenset(evicted).union(*(line.states for line in removed))
        lines = tuple(same or Line(text, new) for text, same in zip(write.after, kept, strict=True))
        changes.append(Change(before, lines))
    return changes
