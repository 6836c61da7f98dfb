"""Records that travel between processes, thousands at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any


class Values:
    """A frozen dataclass of two fields or more that is pickled as its fields' values alone.

    That takes a third of the time, and leaves out what was derived from them.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        kind: type = type(self)
        return kind, _values_of(kind)(self)


@cache
def _values_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*(field.name for field in fields(kind)))
