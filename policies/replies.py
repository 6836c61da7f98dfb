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


def read_json_object(text: str, *, partial: bool = False) -> dict[str, Any]:
    """Return the JSON object in a reply: the whole of it, fenced, or the last one in the text.

    With ``partial``, an object that breaks off is read as far as it is whole. Raises ReplyError when there is none, or
    the reply is too long to be one.
    """
    if len(text) > LONGEST_REPLY:
        raise ReplyError(f"the reply has {len(text):,} characters")
    fences = [] if text.lstrip().startswith("{") else _fenced(text)
    values = [*_values(text, *reversed(fences))]
    whole = next((value for value in values if isinstance(value, dict)), None)
    if whole is not None:
        return whole
    begun = _begun(text) if partial else None
    if begun:
        return begun
    if values:
        raise ReplyError(f"the reply is a JSON {type(values[0]).__name__}, not an object")
    objects = [value for _, value in json_values(text, r"(?=\{)") if isinstance(value, dict)]
    if not objects:
        raise ReplyError("the reply holds no JSON object")
    return objects[-1]


def _fenced(text: str) -> list[str]:
    """Return what stands in fences that are closed."""
    inside = text.split(_FENCE)[1:-1:2]
    return [each[4:] if each[:4].lower() == "json" else each for each in inside]


def _values(*texts: str) -> Iterator[Any]:
    """Yield the values of the texts that are JSON."""
    for text in texts:
        with suppress(ValueError, RecursionError):
            yield json.loads(text)


def _begun(text: str) -> dict[str, Any] | None:
    """Return what is whole in the object that begins with the first brace; None where it does not break off."""
    _, brace, rest = text.partition("{")
    with suppress(ValueError, RecursionError):
        json.JSONDecoder().raw_decode(brace + rest)
        return None
    with suppress(ValueError):
        known = _without_half_item(brace + rest).rstrip("0123456789.eE+-")  # a number may have more digits
        value = from_json(known, allow_partial=True)
        return value if isinstance(value, dict) else None
    return None


def _without_half_item(text: str) -> str:
    """Return an object that breaks off, without the last item of a list in it where that item breaks off itself."""
    opened: list[int] = []
    for part in _STRING_OR_BRACKET.finditer(text):
        if part[0] in "[{":
            opened.append(part.start())
        elif part[0] in "]}" and opened:
            opened.pop()
    return text[: opened[2]] if len(opened) > 2 and text[opened[1]] == "[" else text


def json_values(text: str, opening: str) -> Iterator[tuple[str, Any]]:
    """Yield each JSON value with its source; it starts where a match of the regular expression ``opening`` ends.

    What stands inside a value that was yielded is not yielded by itself.
    """
    decoder, position = json.JSONDecoder(), 0
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
