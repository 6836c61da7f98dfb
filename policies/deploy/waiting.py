"""Messages that wait to be observed: as a text in the file, and in parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ..lm.base import Message, to_json
from ..memory.budget import units_of
from ..memory.saving import messages_as_json, messages_of
from .rows import Waiting


def rounds(messages: Sequence[Message]) -> list[list[Message]]:
    """Return messages in the parts in which they were exchanged: what a user says with what is replied, or a call."""
    parts: list[list[Message]] = []
    for message in messages:
        before = parts[-1][-1].role if parts else None
        if before is None or message.role == "user" or (message.role == "assistant" and before != "user"):
            parts.append([])
        parts[-1].append(message)
    return parts


def without(messages: Sequence[Message], what: Callable[[str], bool]) -> list[Message]:
    """Return messages but those of whose text ``what`` is true; calls go with their results."""
    units = [unit for unit in units_of(messages) if not any(what(message.text) for message in unit)]
    return [message for unit in units for message in unit]


def as_text(messages: Sequence[Message]) -> str:
    """Return messages as the file has them."""
    return to_json(messages_as_json(messages)).decode()


def messages_in(row: Waiting) -> list[Message]:
    """Return the messages that wait in a row."""
    return messages_of(json.loads(row.said))
