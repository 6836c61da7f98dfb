"""Values that take little memory until they are used."""

from __future__ import annotations

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeVar, overload

from .task import Check, Fact, Task
from .values import Values

T = TypeVar("T")

MOST_OPEN_BYTES = 2**20
"""Of folded values that stay open in a process after they were used: some 50 users and episodes.

Open, they take ten times as much.
"""


def fold(value: Any) -> bytes:
    """Return a value in few bytes. Raises RecursionError where it is nested too deeply."""
    return zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)


class _Open:
    """Values that were used last, by what they are folded to."""

    def __init__(self) -> None:
        self._values: OrderedDict[bytes, Any] = OrderedDict()
        self._bytes = 0

    def value(self, folded: bytes) -> Any:
        if folded in self._values:
            self._values.move_to_end(folded)
            return self._values[folded]
        value = pickle.loads(zlib.decompress(folded))  # noqa: S301 - made by this package's own processes
        self._values[folded] = value
        self._bytes += len(folded)
        while self._bytes > MOST_OPEN_BYTES and len(self._values) > 1:
            self._bytes -= len(self._values.popitem(last=False)[0])
        return value


_open = _Open()


def unfold(folded: bytes) -> Any:
    """Return the value of ``fold``, which nobody may change: others may get the same."""
    return _open.value(folded)


@dataclass(frozen=True, slots=True, eq=False)
class Folded(Values, Sequence[T], Generic[T]):
    """A sequence that is opened when something is taken of it; it is equal to any sequence of equal values."""

    folded: bytes
    length: int
    part: int | None = None
    """Which of the folded sequences it is; None where only this one is folded."""

    @classmethod
    def of(cls, values: Sequence[T]) -> Folded[T]:
        """Fold a sequence."""
        return cls(fold(tuple(values)), len(values))

    @classmethod
    def each_of(cls, sequences: Sequence[Sequence[T]]) -> list[Folded[T]]:
        """Fold sequences together, which is smaller where they repeat each other."""
        folded = fold(tuple(map(tuple, sequences)))
        return [cls(folded, len(values), part) for part, values in enumerate(sequences)]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        return self._open[place]

    def __iter__(self) -> Iterator[T]:
        return iter(self._open)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._open == tuple(other)

    def __hash__(self) -> int:
        return hash(self._open)

    def __repr__(self) -> str:
        return repr(self._open)

    @property
    def _open(self) -> tuple[T, ...]:
        values: tuple[Any, ...] = unfold(self.folded) if self.length else ()
        return values if self.part is None or not self.length else values[self.part]


class FoldedMap(MutableMapping[str, T]):
    """A mapping whose values are opened when they are taken."""

    def __init__(self, values: Mapping[str, T] = MappingProxyType({})) -> None:
        """Fold these values."""
        self._folded: dict[str, bytes] = {}
        self.update(values)

    def only(self, keys: Iterable[str]) -> FoldedMap[T]:
        """Return a mapping of those of these keys that are there, in their order."""
        part = FoldedMap[T]()
        part._folded = {key: self._folded[key] for key in keys if key in self._folded}
        return part

    def __getitem__(self, key: str) -> T:
        value: T = unfold(self._folded[key])
        return value

    def __setitem__(self, key: str, value: T) -> None:
        self._folded[key] = fold(value)

    def __delitem__(self, key: str) -> None:
        del self._folded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._folded)

    def __len__(self) -> int:
        return len(self._folded)

    def __contains__(self, key: object) -> bool:
        return key in self._folded


def opened(task: Task) -> Any:
    """Return a task as its track knows it, which nobody may change."""
    return task.opened if isinstance(task, FoldedTask) else task


class MadeLater:
    """A task that is made and folded when it is needed first."""

    def __init__(self, make: Callable[[], Task]) -> None:
        """Make nothing yet."""
        self._make = make

    @cached_property
    def folded(self) -> bytes:
        """The task, folded."""
        return fold(self._make())

    def __eq__(self, other: object) -> bool:
        return self.folded == (other.folded if isinstance(other, MadeLater) else other)

    def __hash__(self) -> int:
        return hash(self.folded)

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        return bytes, (self.folded,)


@dataclass(frozen=True, slots=True)
class FoldedTask(Values):
    """A task that is opened when it is played or scored."""

    id: str
    group: str
    stages: int
    folded: bytes | MadeLater

    @classmethod
    def of(cls, task: Task) -> FoldedTask:
        """Fold a task. Raises RecursionError where it is nested too deeply."""
        return cls(task.id, task.group, task.stages, fold(task))

    @property
    def opened(self) -> Any:
        """The task, which nobody may change."""
        return unfold(self.folded.folded if isinstance(self.folded, MadeLater) else self.folded)

    @property
    def facts(self) -> Mapping[str, Fact]:
        """What has to be remembered, by id."""
        facts: Mapping[str, Fact] = self.opened.facts
        return facts

    @property
    def checks(self) -> Mapping[str, Check]:
        """What is asked, by id, in the order of stages."""
        checks: Mapping[str, Check] = self.opened.checks
        return checks
