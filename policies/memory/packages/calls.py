"""How many calls of a model memories of other packages make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackageCalls:
    """The most calls of one memory; embeddings are none."""

    write: int = 0
    """For each time that messages are written together."""
    message: int = 0
    """For each message that is written."""
    search: int = 0
    """For each time that something is brought back."""


MOST_CALLS: Mapping[str, PackageCalls] = {
    "mem0ai": PackageCalls(write=2),
    "mem0ai-kuzu": PackageCalls(write=5, search=1),
    "langmem": PackageCalls(write=2),
    "a-mem-package": PackageCalls(message=2),
    "nemori-package": PackageCalls(write=1, message=3),
}
"""By the name of the backend, read off the packages' code. Mem0 2 and LangMem made one call for each write when they
were measured; twice that is foretold. Nemori makes five at most for an episode, of two messages or more, and one to
divide a talk."""
