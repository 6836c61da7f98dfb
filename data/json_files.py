"""Files that hold JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import IO, Any

from .whole_files import replacing


def read_json(path: Path) -> Any:
    """Return a file's JSON; None when there is no file, or it is not whole JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):  # text that is not UTF-8 is a ValueError
        return None


CHARACTERS_AT_ONCE = 1 << 20
LONGEST_TOKEN = 8
"""Characters within which the end of what was read can break a value off, or leave a number that goes on."""
WHITE_SPACE = re.compile(r"[ \t\r\n]*")

_DECODER = json.JSONDecoder()


def each_row(file: IO[str], *, at_once: int = CHARACTERS_AT_ONCE) -> Iterator[Any]:
    """Yield the rows of a JSON list one by one, so that the file may be larger than memory; else the one value.

    Objects one after another, such as one a line, are rows too, whatever the file's name says. ``at_once`` characters
    are read at a time. Raises ValueError when it is not JSON; the message says in which row, from 0.
    """
    text = _Ahead(file, at_once)
    if text.next_character() == "{":
        yield from _one_after_another(text)
    elif text.next_character() != "[":
        yield text.value()
    else:
        text.skip()
        if text.next_character() == "]":
            text.skip()
        else:
            yield from _listed(text)
    if text.next_character():
        raise ValueError("something follows the end")


def _one_after_another(text: _Ahead) -> Iterator[Any]:
    yield text.value()
    for row in count(1):
        if text.next_character() != "{":
            return
        try:
            yield text.value()
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from None


def _listed(text: _Ahead) -> Iterator[Any]:
    for row in count():
        try:
            yield text.value()
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from None
        after = text.next_character()
        text.skip()
        if after == "]":
            return
        if after != ",":
            raise ValueError(f"row {row}: neither a comma nor the end of the list follows")


class _Ahead:
    """A text that is read as far as it is needed."""

    def __init__(self, file: IO[str], at_once: int) -> None:
        self._file = file
        self._at_once = at_once
        self._text, self._place = "", 0
        """What was read last, and how much of it was taken."""

    def next_character(self) -> str:
        """Return what comes next and is no white space, without taking it; nothing at the end."""
        while True:
            self._place = WHITE_SPACE.match(self._text, self._place).end()  # type: ignore[union-attr]
            if self._place < len(self._text) or not self._more():
                return self._text[self._place : self._place + 1]

    def skip(self) -> None:
        """Take one character."""
        self._place += 1

    def value(self) -> Any:
        """Take the next value. Raises ValueError when it is not JSON."""
        self.next_character()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                broken_off = error.msg.startswith("Unterminated") or error.pos > len(self._text) - LONGEST_TOKEN
                if not broken_off or not self._more():
                    raise
                continue
            if end < len(self._text) - LONGEST_TOKEN or not self._more():  # else a number may go on
                self._place = end
                return value

    def _more(self) -> bool:
        """Read on, twice as far each time that it is not enough; tell whether there was more."""
        text = self._file.read(max(len(self._text) - self._place, self._at_once))
        if text:
            self._text, self._place = self._text[self._place :] + text, 0
        return bool(text)


def write_json(path: Path, value: Any, *, indent: int = 1) -> None:
    """Write JSON, whole or not at all; the text is never in memory as a whole."""
    with replacing(path) as file, TextIOWrapper(file, "utf-8", newline="\n") as text:
        json.dump(value, text, ensure_ascii=False, indent=indent)
        text.write("\n")
