"""A knob: one dimension of the policy space, with its domain and the condition under which it has an effect."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

Item = TypeVar("Item")
Failure = Literal["write", "read", "utilisation"]
Values = Mapping[str, Any]
"""What a policy says, by path, for example ``write.mode``."""
Point = Mapping[str, Any]
"""The values of the searched knobs that have an effect, by the knob's name."""


def each_once(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return the items. Raises ValueError when two are equal."""
    if len(set(items)) < len(items):
        raise ValueError("name each once")
    return items


def _in_order(bounds: tuple[int, int]) -> tuple[int, int]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"the lower bound {bounds[0]} is above the upper bound {bounds[1]}")
    return bounds


@dataclass(frozen=True, slots=True)
class Choices:
    """Names to choose from."""

    limits: tuple[str, ...]
    named: tuple[str, ...] = ()
    """What a policy may have besides, and is searched only where ``search.space`` names it."""
    registered: bool = False
    """Whether it may also have what packages register, and ``search.space`` may name it."""

    def __contains__(self, value: object) -> bool:
        return value in self.limits

    def __str__(self) -> str:
        others = [*self.named, *["a registered name"] * self.registered]
        return " or ".join(self.limits) + (f"; {' or '.join(others)} where a limit names it" if others else "")

    @property
    def annotation(self) -> Any:
        """What its limits may be, for pydantic."""
        choice = str if self.registered else Literal.__getitem__((*self.limits, *self.named))
        return Annotated[tuple[choice, ...], Field(min_length=1), AfterValidator(each_once)]  # type: ignore[valid-type]

    def allows(self, value: object) -> bool:
        """Tell whether a policy may have a value, searched or not."""
        return self.registered or value in self.limits or value in self.named

    def coordinates(self, value: object) -> list[float]:
        """Return a value's place; between two choices there is a distance of 1."""
        return [math.sqrt(1 / 2) * (value == choice) for choice in self.limits]


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers between two limits, both included."""

    limits: tuple[int, int]
    least: int = 1
    """What a policy may have at least."""
    most: int | None = None
    """What a policy may have at most; None: there is no such bound."""
    ends: tuple[int, ...] = ()
    """Limits beyond which a search has nothing to look for, besides ``least`` and ``most``."""
    log: bool = True
    """Whether a step is a factor, and not a difference."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.limits[0] <= value <= self.limits[1]

    def __str__(self) -> str:
        return "{} to {}".format(*self.limits)

    @property
    def annotation(self) -> Any:
        """What its limits may be, for pydantic."""
        number = Annotated[int, Field(ge=self.least, le=self.most)]
        return Annotated[tuple[number, number], AfterValidator(_in_order)]

    def allows(self, value: object) -> bool:
        """Tell whether a policy may have a value, searched or not."""
        return isinstance(value, int) and value >= self.least and (self.most is None or value <= self.most)

    def coordinates(self, value: int | None) -> list[float]:
        """Return a value's place between the limits, 0 to 1; what has no effect is in the middle."""
        low, high = map(self._scaled, self.limits)
        return [1 / 2 if value is None or low == high else (self._scaled(value) - low) / (high - low)]

    def _scaled(self, value: int) -> float:
        return math.log(value + 1) if self.log else value

    @property
    def shift(self) -> int:
        """What is added before a logarithm is taken, so that 0 has one."""
        return max(0, 1 - self.least) if self.log else 0

    @property
    def open_limits(self) -> set[int]:
        """The limits beyond which there is more; none where they leave a single number."""
        low, high = self.limits
        return {low, high} - {self.least, self.most, *self.ends} if low < high else set()


@dataclass(frozen=True, slots=True)
class When:
    """The condition under which a knob has an effect: another knob, above it in the table, has one of these values."""

    knob: str
    values: tuple[str, ...]
    words: str
    """The condition, as it follows ``needed``."""
    unless: bool = False
    """Whether the other knob must have none of them instead."""
    also: When | None = None
    """What has to hold besides."""

    def __and__(self, other: When) -> When:
        """Return the condition that both hold."""
        further = other if self.also is None else self.also & other
        return replace(self, words=f"{self.words}, {other.words}", also=further)

    @property
    def parts(self) -> tuple[When, ...]:
        """The condition, and those that have to hold besides."""
        return self, *(() if self.also is None else self.also.parts)

    def allows(self, value: Any) -> bool:
        """Tell whether the other knob may have a value, None where it has no effect."""
        return (value in self.values) != self.unless

    def unmet(self, point: Point) -> When | None:
        """Return the first part that does not hold where the knobs above have these values; None where all do."""
        return next((part for part in self.parts if not part.allows(point.get(part.knob))), None)


@dataclass(frozen=True, slots=True)
class Knob:
    """One dimension of the policy space."""

    name: str
    """Its name in studies, in proposals and for language models; a prompt's is the kind of text that it is."""
    path: str
    """Where a policy keeps it. Knobs of one path have conditions that exclude each other."""
    domain: Choices | Range | None
    """Where it is searched by default; None where no sampler draws it, as a text."""
    when: When | None = None
    """None: it always has an effect."""
    unit: str = ""
    mends: tuple[Failure, ...] = ()
    """The failures that it can mend. A knob with none is structure: only samplers change it."""
    meaning: str = ""
    """What it is, in words that follow its name; a prompt's follow ``This prompt``."""
    part: str = ""
    """What it is inherited with when two policies are crossed; empty: itself alone."""
    key: str = ""
    """Its key in ``search.space``; empty: its name."""
    default: int | str | None = None
    """What a policy has that does not say it; None: it has to be said."""
    held: Mapping[str, Any] = field(default_factory=dict)
    """What a policy holds for each choice, where not the choice itself."""
    tokens: int = 0
    """Tokens of a small unit: the budget divided by it is the upper limit of the search; 0: it sets no limit."""
    usual: int = 0
    """The most that a named strategy has: no budget limits the search to less."""
    named: bool = False
    """Whether it is searched only where ``search.space`` names it; else a policy keeps its parent's value."""
    ships: tuple[str, ...] = ()
    """The values of which the table knows when they have an effect, where packages bring others; empty: all are."""

    @property
    def slot(self) -> str:
        """The slot of a prompt; empty for what is none."""
        return self.path.removeprefix("prompts.") if self.path.startswith("prompts.") else ""

    @property
    def limited_by(self) -> str:
        """Its key in ``search.space``."""
        return self.key or self.name

    def has_effect(self, point: Point, value: Any = None) -> bool:
        """Tell whether it has an effect where the knobs above it in the table have these values.

        A ``value`` that a package brings always has: only that package knows when.
        """
        if self.ships and value is not None and value not in self.ships:
            return True
        return self.when is None or self.when.unmet(point) is None

    def read(self, values: Values) -> Any:
        """Return its value in a policy."""
        value = values.get(self.path)
        value = self.default if value is None else value
        return next((choice for choice, held in self.held.items() if held == value), value)

    def hold(self, value: Any) -> Any:
        """Return what a policy holds for a value."""
        return self.held.get(value, value)
