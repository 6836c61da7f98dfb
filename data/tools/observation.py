"""What a tool gives back, as text that a memory can take in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..chunks import BYTES_PER_TOKEN, MOST_CHUNK_TOKENS, chunks
from .world import Result

MOST_LINE_BYTES = 320
"""A value that is longer as JSON is shown on several lines, one for each part."""
MOST_HEAD_TOKENS = 80


def observed(name: str, arguments: Mapping[str, Any], result: Result) -> tuple[str, ...]:
    """Return a tool call and its result in pieces of 200 tokens or fewer; each begins with the call.

    A record stands on one line, as JSON, so that a line can be read by itself.
    """
    head = f"{name}({as_json(arguments)}) returned:"
    head = chunks(head, tokens=MOST_HEAD_TOKENS)[0].rstrip()
    lines = lines_of(result.value) if isinstance(result.value, dict | list) else _plain(str(result.value))
    body = f"Error: {result.value}" if result.error else "\n".join(lines)
    room = MOST_CHUNK_TOKENS - -(-(len(head.encode("utf-8", "surrogatepass")) + 1) // BYTES_PER_TOKEN)
    return tuple(f"{head}\n{piece.rstrip()}" for piece in chunks(body or "nothing", tokens=room))


def lines_of(value: Any) -> Iterator[str]:
    """Yield the lines of a JSON value: a record stands on one, and so does each part of a list of texts."""
    if not isinstance(value, dict):
        yield from _lines(value, "result" if _is_list(value) else "")
        return
    for key in [key for key, part in value.items() if _is_list(part)]:
        yield from _lines(value[key], key)
    yield from _lines({key: part for key, part in value.items() if not _is_list(part)}, "")


def _lines(value: Any, name: str) -> Iterator[str]:
    """Yield the lines of a part, each after the names that lead to it."""
    if _is_list(value):
        yield from (f"{name} place {place}: {part}" for place, part in enumerate(value, 1))
    elif not isinstance(value, dict | list) or not _is_long(value, MOST_LINE_BYTES):
        yield from (f"{name} {line}".strip() for line in as_text(value).splitlines())
    elif isinstance(value, list):
        for part in value:
            yield from _lines(part, name)
    else:
        room = -1 if _is_table(value) else MOST_LINE_BYTES // 2
        short = {key: part for key, part in value.items() if not _is_long(part, room)}
        if short:
            yield f"{name} {as_json(short)}".strip()
        for key, part in value.items():
            if key not in short:
                yield from _lines(part, f"{name} {key}".strip())


def _plain(text: str) -> list[str]:
    """Return the lines of a text; a single one after a name."""
    return [f"result: {text}"] if text and "\n" not in text else text.splitlines()


def as_json(value: Any) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def as_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else as_json(value)


def _is_long(value: Any, room: int) -> bool:
    """Tell whether a value does not belong on one line: it takes more bytes, or has records in it."""
    if not isinstance(value, dict | list):
        return room < 0
    return _has_records(value) or len(as_json(value).encode("utf-8", "surrogatepass")) > room


def _has_records(value: dict[str, Any] | list[Any]) -> bool:
    if isinstance(value, list):
        return any(isinstance(part, dict) for part in value)
    return _is_table(value) or any(_has_records(part) for part in value.values() if isinstance(part, dict | list))


def _is_table(value: Any) -> bool:
    """Tell whether a value is records by their names."""
    return isinstance(value, dict) and len(value) > 1 and all(isinstance(part, dict) for part in value.values())


def _is_list(value: Any) -> bool:
    """Tell whether a value is texts or numbers of which one has to be told from another."""
    return isinstance(value, list) and len(value) > 1 and not any(isinstance(part, dict | list) for part in value)
