"""The parts that make a thing together, such as "own" and "label", and how near they have to stand."""

from __future__ import annotations

from collections.abc import Sequence

from .wording import Hit

REACH = 5
"""Words between the two parts of a thing, such as "own" and "label"."""
BE = frozenset({"be", "is", "are", "been", "being", "get", "gets", "was", "were"})
"""Words before what is done with a thing, as in "is to be recorded"."""
_IS = frozenset({"be", "is", "are"})
"""The same without those that an event stands with, as in "gets noted"."""
_BETWEEN = frozenset({"contrast", "form", "not", "no", "drop"})
"""Groups across which two parts make no thing."""


def is_done(hits: Sequence[Hit], i: int) -> bool:
    """Tell whether a word says what is done with a thing, as in "to be recorded", and is none."""
    return i > 0 and "keep" in hits[i].groups and hits[i].words.endswith("ed") and hits[i - 1].words in BE


def is_part(hits: Sequence[Hit], i: int, group: str) -> bool:
    """Tell whether a hit is of a group; what is said to be stored is not therefore an old note."""
    return group in hits[i].groups and not (group == "~old" and is_done(hits, i) and hits[i - 1].words in _IS)


def part_before(hits: Sequence[Hit], i: int, group: str) -> int | None:
    """Return the place of the nearest hit of a group that can belong to this one."""
    for j in range(i - 1, -1, -1):
        if hits[i].place - hits[j].place - len(hits[j].words.split()) >= REACH or hits[j].groups & _BETWEEN:
            return None
        if is_part(hits, j, group):
            return j
    return None
