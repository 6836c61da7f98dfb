"""Masks: a short mark in place of an old observation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..lm.base import Message
from .budget import units_of

MASK = "[masked]"
"""What stands for a masked observation."""
OBSERVATIONS = frozenset({"user", "tool"})
"""Roles of the messages that an assistant observes."""
_ERROR = re.compile(
    r"\b(?:error|exception)s?\b|(?-i:\b\w+(?:Error|Exception)\b)|\btraceback\b"
    r"|\b(?:failed|failure|fatal|refused|denied|not found|timed out)\b|\bexit (?:code|status):? [1-9]",
    re.IGNORECASE,
)


def masked(messages: Sequence[Message], newest: int) -> tuple[Message, ...]:
    """Return messages with a mark for each observation older than the ``newest`` ones; 0 masks none.

    What looks like an error stays, as do all messages of a unit that reaches into the newest ones.
    After MemGym's observation masking (2026).
    """
    if not newest:
        return tuple(messages)
    shown: list[Message] = []
    for unit in units_of(messages):
        old = len(shown) + len(unit) <= len(messages) - newest
        shown += map(_marked, unit) if old else unit
    return tuple(shown)


def looks_like_error(text: str) -> bool:
    """Tell whether a text seems to report that something went wrong."""
    return _ERROR.search(text) is not None


def _marked(message: Message) -> Message:
    if message.role not in OBSERVATIONS or looks_like_error(message.content):
        return message
    return replace(message, content=MASK)
