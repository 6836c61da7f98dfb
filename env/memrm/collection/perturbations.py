"""Six ways to damage a memory, after MemGym (2026); each of them changes it, or tells that it cannot."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

SOME = 0.2
MOST_NEWEST = 10
NOISE = 2
REMOVED = "[removed]"
_VALUE = re.compile(r"\w*\d[\w.,:/-]*|\w+_\w+")
_PATH = re.compile(
    r"[\w.~-]*(?:/[\w.-]+)+/?|\b[\w-]+\.(?:py|js|ts|json|ya?ml|toml|ini|cfg|conf|txt|md|csv|log|html|sh)\b"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a memory."""

    memory: int | None
    """0-based place of the memory that it belongs to; None for a memory that is added."""
    text: str


Damage = Callable[[Sequence[Line], Sequence[str], random.Random], list[Line]]
"""Damages one line or more, oldest first, at random; the texts are what can be added: lines of other tasks."""


def drop_oldest(lines: Sequence[Line], foreign: Sequence[str], rng: random.Random) -> list[Line]:
    """Drop the older half of the lines, at least one."""
    return [*lines[_half(lines) :]]


def drop_some(lines: Sequence[Line], foreign: Sequence[str], rng: random.Random) -> list[Line]:
    """Drop one line in five, at least one, at random."""
    return _without(lines, rng.sample(range(len(lines)), max(1, round(SOME * len(lines)))))


def drop_newest(lines: Sequence[Line], foreign: Sequence[str], rng: random.Random) -> list[Line]:
    """Drop the newest ten lines, but no more than half of them; at least one."""
    return [*lines[: -min(MOST_NEWEST, _half(lines))]]


def redact_values(lines: Sequence[Line], foreign: Sequence[str], rng: random.Random) -> list[Line]:
    """Remove numbers, codes and names with an underscore from half of the lines that have some, at random."""
    places = [place for place, line in enumerate(lines) if _VALUE.search(line.text)]
    return _redacted(lines, _VALUE, rng.sample(places, -(-len(places) // 2)))


def delete_paths(lines: Sequence[Line], foreign: Sequence[str], rng: random.Random) -> list[Line]:
    """Remove paths and names of files from all lines."""
    return _redacted(lines, _PATH, range(len(lines)))


def add_noise(lines: Sequence[Line], foreign: Sequence[str], rng: random.Random) -> list[Line]:
    """Add two lines of other tasks, as the newest."""
    return [*lines, *(Line(None, text) for text in rng.sample(foreign, min(NOISE, len(foreign))))]


DAMAGES: Mapping[str, Damage] = {
    damage.__name__: damage for damage in (drop_oldest, drop_some, drop_newest, redact_values, delete_paths, add_noise)
}
"""By name, which no reward model sees."""


def damaged(
    name: str, memories: Sequence[str], foreign: Sequence[str], rng: random.Random
) -> tuple[list[str], list[str]] | None:
    """Return the memories with a damage, each in its place, and those that are added.

    Memories are damaged line by line, as a summary is one memory of many lines; one without a line left is an empty
    text. None where the damage changes nothing.
    """
    lines = [Line(place, text) for place, memory in enumerate(memories) for text in memory.splitlines(keepends=True)]
    if not lines:
        return None
    after = DAMAGES[name](lines, foreign, rng)
    if after == lines:
        return None
    kept = ["".join(line.text for line in after if line.memory == place) for place in range(len(memories))]
    return [text.rstrip() for text in kept], [line.text for line in after if line.memory is None]


def _half(lines: Sequence[Line]) -> int:
    return max(1, len(lines) // 2)


def _without(lines: Sequence[Line], places: Sequence[int]) -> list[Line]:
    return [line for place, line in enumerate(lines) if place not in places]


def _redacted(lines: Sequence[Line], pattern: re.Pattern[str], places: Sequence[int]) -> list[Line]:
    return [
        replace(line, text=pattern.sub(REMOVED, line.text)) if place in places else line
        for place, line in enumerate(lines)
    ]
