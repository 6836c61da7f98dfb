"""Read JSON out of what language models say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pydantic_core import from_json

LONGEST_REPLY = 100_000
"""Characters from which on a reply is refused unread."""

_FENCE = "```"
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{\]}]', re.DOTALL)


class ReplyError(ValueError):
    """A reply is not what the prompt asked for; the message says why."""


def read_json_object(text: str, *, whole_from: int | None = None) -> dict[str, Any]:
    """Return the JSON object in a reply: the whole of it, fenced, or the last one in the text.

    With ``whole_from``, an object that breaks off is read too, without the last thing in it that stands so many
    brackets deep, from 1 on, and breaks off itself. Raises ReplyError when there is none, or the reply is too long to
    be one.
    """
    if len(text) > LONGEST_REPLY:
        raise ReplyError(f"the reply has {len(text):,} characters")
    fences = [] if text.lstrip().startswith("{") else _fenced(text)
    values = [*_values(text, *reversed(fences))]
    whole = next((value for value in values if isinstance(value, dict)), None)
    if whole is not None:
        return whole
    begun = None if whole_from is None else _begun(text, whole_from)
    if begun:
        return begun
    if values:
        raise ReplyError(f"the reply is a JSON {type(values[0]).__name__}, not an object")
    objects = _objects(text)
    if not objects:
        raise ReplyError("the reply holds no JSON object")
    return objects[-1]


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the objects in a text; none from within one that begins a line, and is no JSON: they are parts of it."""
    objects, decoder, brace = list[dict[str, Any]](), json.JSONDecoder(strict=False), text.find("{")
    while brace >= 0:
        try:
            value, end = decoder.raw_decode(text, brace)
            objects.append(value)
        except (ValueError, RecursionError):
            begins = not text[text.rfind("\n", 0, brace) + 1 : brace].strip()
            doubled = text.startswith("{", brace + 1)
            end = _end_of_brackets(text, brace) if begins and not doubled else brace + 1
        brace = text.find("{", end)
    return objects


def _end_of_brackets(text: str, begin: int) -> int:
    """Return where the bracket that opens at ``begin`` is closed; the end of the text where it is not."""
    depth = 0
    for part in _STRING_OR_BRACKET.finditer(text, begin):
        depth += (part[0] in "[{") - (part[0] in "]}")
        if not depth:
            return part.end()
    return len(text)


def _fenced(text: str) -> list[str]:
    """Return what stands in fences that are closed."""
    inside = text.split(_FENCE)[1:-1:2]
    return [each[4:] if each[:4].lower() == "json" else each for each in inside]


def _values(*texts: str) -> Iterator[Any]:
    """Yield the values of the texts that are JSON."""
    for text in texts:
        with suppress(ValueError, RecursionError):
            yield json.loads(text, strict=False)


def _begun(text: str, depth: int) -> dict[str, Any] | None:
    """Return what is whole in the object that begins with the first brace; None where it does not break off."""
    _, brace, rest = text.partition("{")
    with suppress(ValueError, RecursionError):
        json.JSONDecoder(strict=False).raw_decode(brace + rest)
        return None
    with suppress(ValueError):
        known = _without_half_item(brace + rest, depth).rstrip("0123456789.eE+-")  # a number may have more digits
        value = from_json(known, allow_partial=True)
        return value if isinstance(value, dict) else None
    return None


def _without_half_item(text: str, depth: int) -> str:
    """Return an object that breaks off, without what is so many brackets deep in it and breaks off itself."""
    opened: list[int] = []
    for part in _STRING_OR_BRACKET.finditer(text):
        if part[0] in "[{":
            opened.append(part.start())
        elif part[0] in "]}" and opened:
            opened.pop()
    return text[: opened[depth]] if len(opened) > depth else text


def json_values(text: str, opening: str) -> Iterator[tuple[str, Any]]:
    """Yield each JSON value with its source; it starts where a match of the regular expression ``opening`` ends.

    What stands inside a value that was yielded is not yielded by itself.
    """
    decoder, position = json.JSONDecoder(strict=False), 0
    for match in re.finditer(opening, text, re.MULTILINE):
        if match.end() < position:
            continue
        try:
            value, position = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        yield text[match.end() : position], value


def as_text(value: Any) -> str:
    """Return a JSON value as text: strings as they are, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()
