"""What memory holds at the end of a task: how much, and how much of it serves nothing."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ..data.task import Fact, Task
from ..data.values import Values
from ..policies.text import stems
from .evidence import ENOUGH, tellings
from .statistics import nan_mean

StoredFigure = Literal["lines", "bytes", "junk", "duplicates", "stale", "unforgotten", "taken_along"]
FIGURES: tuple[StoredFigure, ...] = get_args(StoredFigure)
"""What is told of a memory; of each, less is better. All but the first two are shares, in [0, 1]."""

_LABEL = re.compile(r"^[^:\n]{1,60}: ")


@dataclass(frozen=True, slots=True)
class Stored(Values):
    """What a memory holds; the messages of its buffer are no lines. Shares of lines are NaN where there is none.

    The share of junk is also NaN where no check needs a fact, and that of stale lines where no fact is overwritten.
    """

    lines: int
    bytes: int
    """UTF-8, all lines together."""
    junk: float
    """Share of lines that tell no fact which any check needs."""
    duplicates: float
    """Share of lines that have the same content words as a later line."""
    stale: float
    """Share of lines that tell a fact which has been overwritten, and none that holds."""
    unforgotten: float = math.nan
    """Share of facts that memory still tells after it was asked to forget them, as ``forgetting`` has it."""
    taken_along: float = math.nan
    """Share of all other facts that went with these."""

    def as_json(self) -> dict[str, int | float | None]:
        """Return plain JSON values; NaN becomes null."""
        return {name: None if math.isnan(value := getattr(self, name)) else value for name in FIGURES}

    @classmethod
    def of(cls, task: Task, lines: Sequence[str]) -> Stored:
        """Look through the lines that memory holds at the end of a task, oldest first.

        A line tells a fact where it has most content words of the fact, or of the sentence that told it; or where
        most of its own stand in one of these, as a note is cut short. A label is not looked at.
        """
        words = [words_of(line) for line in lines]
        told = Tellings(task.facts.values())
        facts = [told.by(line) for line in words]
        needed = {need for check in task.checks.values() for need in check.needs}
        over = {fact.id for fact in task.facts.values() if fact.until is not None and fact.until < task.stages}
        last = {line: place for place, line in enumerate(words)}
        return cls(
            lines=len(lines),
            bytes=sum(len(line.encode("utf-8", "surrogatepass")) for line in lines),
            junk=_share([needed.isdisjoint(of_line) for of_line in facts]) if needed else math.nan,
            duplicates=_share([bool(line) and last[line] > place for place, line in enumerate(words)]),
            stale=_share([bool(of_line) and of_line <= over for of_line in facts]) if over else math.nan,
        )


def mean_stored(each: Iterable[Stored]) -> dict[str, float]:
    """Return the mean of each figure over several tasks' memories; NaN where it is known of none."""
    every = list(each)
    return {name: nan_mean([float(getattr(stored, name)) for stored in every]) for name in FIGURES}


def words_of(line: str) -> frozenset[str]:
    """Return the stems of a line's content words, without its label."""
    return frozenset(stems(_LABEL.sub("", line)))


def is_told(fact: frozenset[str], line: frozenset[str], *, shared: int) -> bool:
    """Tell by a fact's words and a line's, so many of them shared, whether the line tells it, perhaps in part."""
    return shared >= ENOUGH * min(len(fact), len(line))


class Tellings:
    """The ways in which facts are told, by their content words."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        """Know the facts by their own texts, and by the sentences that told them."""
        ways = ((fact.id, frozenset(stems(telling))) for fact in facts for telling in tellings(fact))
        self._ways = [(fact, words) for fact, words in dict.fromkeys(ways) if words]
        self._with: Mapping[str, list[int]] = defaultdict(list)
        for way, (_, words) in enumerate(self._ways):
            for word in words:
                self._with[word].append(way)

    def by(self, line: frozenset[str], *, scraps: bool = True) -> set[str]:
        """Return the facts that a line with these words tells, by id.

        Without ``scraps`` it tells none of which it has half of the words, or fewer.
        """
        shared = Counter(way for word in line if word in self._with for way in self._with[word])
        known = ((*self._ways[way], count) for way, count in shared.items())
        enough = ((fact, words, count) for fact, words, count in known if scraps or 2 * count > len(words))
        return {fact for fact, words, count in enough if is_told(words, line, shared=count)}


def _share(each: Sequence[bool]) -> float:
    return sum(each) / len(each) if each else math.nan
