"""Parts by name: those that ship, those that a program registers, and those that installed packages bring along."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Generic, TypeVar

from .nearest import nearest_note

PartT = TypeVar("PartT")


class UnknownPartError(LookupError):
    """Nothing is registered under a name; the message says what is."""

    def __str__(self) -> str:
        return str(self.args[0])


class Registry(Generic[PartT]):
    """Finds parts of one kind by name; a package brings its own as entry points of the registry's ``group``."""

    def __init__(self, kind: str, group: str, shipped: Mapping[str, PartT]) -> None:
        """``kind`` is what errors call a part, for example ``memory``."""
        self.kind = kind
        self.group = group
        self._parts = dict(shipped)

    def register(self, name: str, part: PartT) -> None:
        """Add a part. Raises ValueError when the name is taken."""
        if name in self.names:
            raise ValueError(f"{self.kind} {name!r} is registered already; choose another name")
        self._parts[name] = part

    def unregister(self, name: str) -> None:
        """Take away a part that was registered."""
        del self._parts[name]

    @property
    def names(self) -> list[str]:
        """All names, in their order."""
        return sorted({*self._parts, *_brought(self.group, tuple(sys.path)).names})

    def get(self, name: str) -> PartT:
        """Return the part of a name; what ships goes before what packages bring. Raises UnknownPartError."""
        if name not in self._parts:
            for entry in _brought(self.group, tuple(sys.path)).select(name=name):
                self._parts[name] = entry.load()
                break
            else:
                known = ", ".join(self.names)
                advice = f"install the package that brings it (entry points {self.group!r}), or register it"
                close = nearest_note(name, self.names)
                raise UnknownPartError(f"there is no {self.kind} {name!r}{close}; there are {known}; {advice}")
        return self._parts[name]


@cache
def _brought(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Return what the packages on the import ``path`` bring along; looking for it takes milliseconds."""
    return entry_points(group=group)
