"""What somebody may have meant by a name that is none."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is most like this one; None where none is like it."""
    return next(iter(get_close_matches(name, sorted(names), n=1)), None)


def nearest_note(name: str, names: Iterable[str]) -> str:
    """Return the part of a message that tells the nearest name; empty where none is like it."""
    close = nearest(name, names)
    return f"; the nearest is {close}" if close else ""
