"""Read JSON out of what language models say."""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST_REPLY = 100_000
"""Characters from which on a reply is refused unread."""

_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)


class ReplyError(ValueError):
    """A reply is not what the prompt asked for; the message says why."""


def read_json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a reply: fenced, bare, or the last one in the text.

    Raises ReplyError when there is none, or the reply is too long to be one.
    """
    if len(text) > LONGEST_REPLY:
        raise ReplyError(f"the reply has {len(text):,} characters")
    for candidate in (*reversed(_FENCE.findall(text)), text):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
        raise ReplyError(f"the reply is a JSON {type(value).__name__}, not an object")
    value = _last_object(text)
    if value is None:
        raise ReplyError("the reply holds no JSON object")
    return value


def _last_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    newest, position = None, text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            newest = value if isinstance(value, dict) else newest
        position = text.find("{", end)
    return newest


def as_text(value: Any) -> str:
    """Return a JSON value as text: strings as they are, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()
