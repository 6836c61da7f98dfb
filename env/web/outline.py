"""What a page shows, as lines of text with its interactive elements numbered."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

from ...data.chunks import BYTES_PER_TOKEN, MOST_CHUNK_TOKENS, chunks
from ...data.resources import resource
from ...data.values import Values
from ...policies.text import whole

MOST_CHARACTERS = 20_000
"""Of an outline, as in MemGym."""
MOST_OF_A_LINE = 4_000
"""Characters of a line: one alone must not hide all that comes after it."""
MOST_PIECES = 4
"""Messages in which memory observes what one action shows; the apps that ship need three."""
MOST_FOREIGN_PIECES = 10
"""The same in a checkout's apps, whose pages are longer."""
_LEAST_ROOM = 60
"""Tokens of a piece that its heading leaves to what is new."""
_NUMBER = "\ufdd0"
"""With what the script begins the number of an element, in the place of its bracket."""
_NUMBERS = re.compile(rf"{_NUMBER}\d+\] ")


@dataclass(frozen=True, slots=True)
class Outline(Values):
    """What is seen after an action."""

    title: str
    path: str
    """Below the app's address."""
    marked: tuple[str, ...]
    """The lines, in which the numbers of elements begin as nothing that a page says."""
    notes: tuple[str, ...] = ()
    """What has become of the action, where it did not go as it should."""
    more: int = 0
    """Lines that are left out, as there are too many."""

    @classmethod
    def of(cls, seen: Mapping[str, Any], *, origin: str, notes: Sequence[str] = ()) -> Self:
        """Return what the script has seen, cut to ``MOST_CHARACTERS``; the server's address is no part of it."""
        lines = [_shortened(line.replace(origin, "")) for line in seen["lines"]]
        room, kept = MOST_CHARACTERS, list[str]()
        for line in lines:
            room -= len(line) + 1
            if room < 0:
                break
            kept.append(line)
        path = str(seen["path"])
        return cls(str(seen["title"]), path, tuple(kept), tuple(notes), more=len(lines) - len(kept))

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the outline that ``recorded`` stands for."""
        values = json.loads(text)
        return cls(**values | {name: tuple(values[name]) for name in ("marked", "notes")})

    @property
    def recorded(self) -> str:
        """The outline as JSON."""
        return whole(json.dumps(asdict(self), ensure_ascii=False))

    @property
    def lines(self) -> tuple[str, ...]:
        """A heading, a text, a row of a table or some interactive elements each."""
        return tuple(line.replace(_NUMBER, "[") for line in self.marked)

    @property
    def heading(self) -> str:
        """What page it is."""
        return f"page {self.title}, {self.path}" if self.title else f"page {self.path}"

    @property
    def text(self) -> str:
        """All of it, as an agent sees it."""
        rest = [f"(and {self.more} more lines)"] if self.more else []
        return "\n".join([*self.notes, self.heading, *self.lines, *rest])

    def pieces(self, before: Outline | None, *, most: int = MOST_PIECES) -> list[str]:
        """Return what memory observes: notes, and the lines that were not there ``before``, without numbers.

        At most ``most`` pieces of 200 tokens or fewer; each begins with what page it is, and a line that fits
        into a piece is not cut.
        """
        heading = _clipped(self.heading, MOST_CHUNK_TOKENS - _LEAST_ROOM)
        known = Counter(before.plain if before is not None else ())
        new = [*self.notes]
        for line in self.plain:
            if known[line]:
                known[line] -= 1
            else:
                new.append(line)
        if not new and before is not None and before.heading == self.heading:
            new = ["Nothing has changed."]
        size = MOST_CHUNK_TOKENS - -(-len(f"{heading}:\n".encode()) // BYTES_PER_TOKEN)
        parts = chunks("\n".join(new), tokens=size)[:most] or [""]
        return [f"{heading}:\n{part}".strip() for part in parts]

    @property
    def plain(self) -> tuple[str, ...]:
        """The lines without the numbers of elements."""
        return tuple(_NUMBERS.sub("", line).replace(_NUMBER, "[") for line in self.marked)


def _shortened(line: str) -> str:
    return line if len(line) <= MOST_OF_A_LINE else f"{line[:MOST_OF_A_LINE]}\u2026"


def _clipped(text: str, tokens: int) -> str:
    return chunks(text, tokens=tokens)[0] if text else text


@cache
def script(name: str) -> str:
    """Return a script that ships, as an expression."""
    text = resource("env", "web", f"{name}.js").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("//")).strip().rstrip(";")
