"""Replies of models that think aloud, without their thoughts."""

from __future__ import annotations

from typing import Any, Literal

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
        self._place: Literal["start", "thoughts", "behind", "aloud"] = "start"
        self._held = ""
        """What is needed of the text so far to know what it is."""

    def take(self, piece: str) -> str:
        """Return what is said by one more piece of the reply: nothing as long as it may be thoughts."""
        if self._place == "aloud":
            return piece
        self._held += piece
        if self._place == "start":
            start = self._held.lstrip()
            if not start.startswith(BEGIN):
                return "" if BEGIN.startswith(start) else self._begin(self._held)
            self._place = "thoughts"
        if self._place == "thoughts":
            _, end, behind = self._held.partition(END)
            self._held = behind if end else self._held[1 - len(END) :]
            self._place = "behind" if end else "thoughts"
        return self._begin(self._held.lstrip()) if self._place == "behind" else ""

    def end(self) -> str:
        """Return what was held back and is no thoughts, as the reply has ended."""
        return self._begin(self._held) if self._place == "start" else ""

    def _begin(self, text: str) -> str:
        """Go on aloud from here on, where there is a text."""
        self._place = "aloud" if text else self._place
        self._held = ""
        return text


def text_of(content: Any) -> str:
    """Return the text of a message: itself, or that of its parts, of which some are thoughts; empty without any."""
    if isinstance(content, list):
        parts = (part for part in content if isinstance(part, dict) and part.get("type") in ("text", "output_text"))
        return "".join(text for part in parts if isinstance(text := part.get("text"), str))
    return content if isinstance(content, str) else ""
