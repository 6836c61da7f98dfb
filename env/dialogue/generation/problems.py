"""Find out all that is wrong with a reply, and say so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from ....data.dialogue.scenario import State
from ....policies.replies import ReplyError

LONGEST_NAME = 100
"""Characters of a name of an info type, a value or a person."""
LONGEST_TEXT = 5_000
MOST_PROBLEMS = 12
"""Problems that a repair lists; a reply full of mistakes would make it endless."""

Schema = dict[str, tuple[str, ...]]
"""The choices of each info type."""


class Problems(list[str]):
    """What is wrong with a reply: at the end of a ``with`` block ReplyError is raised when there is anything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self and error is None:
            more = [f"- and {len(self) - MOST_PROBLEMS} more"] if len(self) > MOST_PROBLEMS else []
            raise ReplyError("\n".join([*(f"- {problem}" for problem in self[:MOST_PROBLEMS]), *more]))

    def text(self, value: Any, where: str, *, longest: int = LONGEST_TEXT) -> str:
        """Return a text in one line; note when it is none."""
        text = " ".join(value.split()) if isinstance(value, str) else ""
        if not isinstance(value, str):
            self.append(f"{where} must be a text, not {named(value)}")
        elif not text:
            self.append(f"{where} is empty")
        elif len(text) > longest:
            self.append(f"{where} has {len(text):,} characters; {longest:,} are the most")
        return text

    def items(self, value: Any, where: str) -> list[Any]:
        """Return a list; note when it is none."""
        if isinstance(value, list):
            return value
        self.append(f"{where} must be a list, not {named(value)}")
        return []

    def fields(self, value: Any, where: str) -> Mapping[str, Any]:
        """Return an object; note when it is none."""
        if isinstance(value, dict):
            return value
        self.append(f"{where} must be an object, not {named(value)}")
        return {}

    def rows(self, values: Sequence[Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the objects of a list that are not empty, each after its place; note items that are none."""
        for n, value in enumerate(values, 1):
            fields = self.fields(value, f"{where} {n}")
            if fields:
                yield f"{where} {n}", fields

    def distinct(self, values: Sequence[str], where: str) -> None:
        """Note what is there twice."""
        twice = [value for value, count in Counter(values).items() if count > 1 and value]
        if twice:
            self.append(f"{where}: {', '.join(map(short, twice))} more than once")

    def keys(self, given: Collection[str], wanted: Collection[str], where: str) -> None:
        """Note what is missing and what is unknown."""
        missing = [key for key in wanted if key not in given]
        unknown = [key for key in given if key not in wanted]
        if missing:
            self.append(f"{where}: {', '.join(map(short, missing))} missing")
        if unknown:
            self.append(f"{where}: {', '.join(map(short, unknown))} not asked for")

    def values(self, given: Mapping[str, Any], schema: Schema, where: str) -> State:
        """Return the values that are choices of their info type; note the others, of known info types."""
        good = {}
        for key, value in given.items():
            if key not in schema:
                continue
            if isinstance(value, str) and value in schema[key]:
                good[key] = value
            else:
                self.append(f"{where}: {named(value)} is no value of {short(key)}; {', '.join(schema[key])} are")
        return good


def whole_number(value: Any) -> int | None:
    """Return a small whole number, also one in quotes; None for anything else."""
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,4}\s*", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def named(value: Any) -> str:
    """Return how a message calls a JSON value."""
    if isinstance(value, str):
        return short(value) or "an empty text"
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "an object"
    return "nothing" if value is None else short(str(value))


def short(text: str) -> str:
    """Return a text in one line that is safe to show, and of a long one the start."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:LONGEST_TEXT]).split())
    return line if len(line) <= 60 else f"{line[:60]}..."
