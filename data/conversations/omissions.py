"""What an import leaves out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..foreign import whole
from ..task import TaskError


@dataclass(slots=True)
class Omissions:
    """Collects what is left out; where it is ``strict``, the first broken line ends the import."""

    strict: bool = False
    broken: list[str] = field(default_factory=list)
    """Where each broken line stands, and what is wrong with it."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """How many whole lines hold nothing that is wanted, by what they are."""

    def leave_out(self, where: str, why: str) -> None:
        """Note a broken line. Raises TaskError where this is strict."""
        problem = f"{where}: {' '.join(why.split())}"
        if self.strict:
            raise TaskError(problem)
        self.broken.append(problem)

    def pass_over(self, what: str) -> None:
        """Note a line that is whole and not wanted."""
        self.passed_over[what] += 1

    @property
    def lines(self) -> Iterator[str]:
        """What people are told of it."""
        for what, count in sorted(self.passed_over.items()):
            yield f"{count:,} {what} passed over"
        yield from (f"left out: {problem}" for problem in self.broken)


def field_of(row: Any, name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Return a field of a row. Raises ValueError naming it, where it is missing or of another kind than ``what``."""
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name}: must be {what}")
    return whole(value)


def text_of_field(row: Any, name: str) -> str:
    """Return a field's text, or its number as text. Raises ValueError where it is missing or empty."""
    text = str(field_of(row, name, (str, int, float), "a text"))
    if not text.strip():
        raise ValueError(f"{name}: is empty")
    return text
