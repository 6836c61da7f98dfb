"""JSON inside a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any


def json_blocks(text: str) -> Iterator[tuple[str, Any]]:
    """Yield each JSON object or list that starts a line, with its source."""
    decoder = json.JSONDecoder()
    position = 0
    for match in re.finditer(r"^[ \t]*(?=[\[{])", text, re.MULTILINE):
        if match.end() < position:
            continue
        try:
            value, position = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        yield text[match.end() : position], value
