"""Replies of models that think aloud, without their thoughts."""

from __future__ import annotations

from typing import Any

BEGIN, END = "<think>", "</think>"


def without_thoughts(text: str) -> str:
    """Return a reply without the thoughts at its start, which some servers leave in it.

    The tag that begins them may have been part of the prompt. Thoughts without an end are no reply.
    """
    thoughts, end, said = text.partition(END)
    begun = text.lstrip().startswith(BEGIN)
    if end:
        return said.lstrip() if begun or BEGIN not in thoughts else text
    return "" if begun else text


class Aloud:
    """What a reply says aloud as it comes, without the thoughts at its start."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._held: str | None = ""
        """What may be thoughts; None once the reply says something."""

    def take(self, piece: str) -> str:
        """Return what is said by one more piece of the reply: nothing as long as it may be thoughts."""
        if self._held is None:
            return piece
        self._held += piece
        start = self._held.lstrip()
        if start.startswith(BEGIN):
            said = without_thoughts(self._held)
        else:
            said = "" if BEGIN.startswith(start) else self._held
        self._held = None if said else self._held
        return said

    def end(self) -> str:
        """Return what was held back and is no thoughts, as the reply has ended."""
        said, self._held = without_thoughts(self._held or ""), None
        return said


def text_of(content: Any) -> str:
    """Return the text of a message: itself, or that of its parts, of which some are thoughts; empty without any."""
    if isinstance(content, list):
        parts = (part for part in content if isinstance(part, dict) and part.get("type") in ("text", "output_text"))
        return "".join(text for part in parts if isinstance(text := part.get("text"), str))
    return content if isinstance(content, str) else ""
