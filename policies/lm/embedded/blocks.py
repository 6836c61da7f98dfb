"""What stands inside a prompt: JSON, the items of lists, and words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ...replies import json_values

ITEM = re.compile(
    r"^\s*(?:[-*+\u2022\u2013\u2023\u25aa\u25cf\u25e6]|(\d{1,2})[.)]|\(?(?:\d{1,2}|[a-z])\)|\[\d{1,2}\])\s+(.+)$",
    re.MULTILINE,
)
"""An item of a list, with its number and its text."""
WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")


def json_blocks(text: str) -> Iterator[tuple[str, Any]]:
    """Return each JSON object or list that starts a line, with its source."""
    return json_values(text, r"^[ \t]*(?=[\[{])")


def value_of(text: str) -> Any:
    """Return what a JSON text holds; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def fenced(value: object) -> str:
    """Return a value as a fenced block of JSON."""
    return f"```json\n{json.dumps(value, ensure_ascii=False)}\n```"


def part_of(schema: Any, name: str) -> dict[str, Any]:
    """Return the object under a name in a schema; an empty one where there is none: a schema may be `true`."""
    part = schema.get(name) if isinstance(schema, dict) else None
    return part if isinstance(part, dict) else {}


def texts_in(value: Any) -> dict[str, str]:
    """Return the names and values of a JSON object as texts; nothing of any other value."""
    return {str(name): str(inner) for name, inner in value.items()} if isinstance(value, dict) else {}


def items_in(text: str) -> list[str]:
    """Return the items of a prompt's lists, each as a whole line."""
    return [match[0] for match in ITEM.finditer(text)]
