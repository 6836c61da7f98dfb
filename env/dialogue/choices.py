"""Which choice a reply names, in whatever form, where that is certain."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_ANSWER = 2_000
"""Characters of a reply without JSON from which on it is not looked at."""

_NUMBER = re.compile(
    r"[\s\"'(\[#*]*(?:(?:the |my )?(?:best |right |correct )?(?:answer|choice|option|number)(?: is)?[\s:=#*\"'(]+)?"
    r"(\d{1,9})[\s\"')\]*.,:;!]*",
    re.IGNORECASE,
)
"""A number that is all there is, such as ``2.``, ``(2)`` or ``The answer is 2``."""
_NUMBERED = re.compile(r"\s*\W?(\d{1,9})\W{0,2}[:.)]\s*(.+)", re.DOTALL)
"""A choice as it is shown: its number and its text."""
_KEYS = ("answer", "choice", "id", "number", "option")
"""Under these a number is that of a choice."""


def choice_of(said: object, choices: Sequence[str]) -> int | None:
    """Return the 1-based number of the one choice that a text or a JSON value names; None where it names none or more.

    The number may lie outside the choices.
    """
    try:
        named = _named(said, choices)
    except RecursionError:
        return None
    return named.pop() if len(named) == 1 else None


def _named(said: object, choices: Sequence[str]) -> set[int]:
    match said:
        case bool():
            return set()
        case int():
            return {said}
        case str():
            return _in_text(said, choices)
        case [item]:
            return _named(item, choices)
        case dict():
            return set().union(*(_in_field(key, value, choices) for key, value in said.items()))
    return set()


def _in_field(key: str, value: object, choices: Sequence[str]) -> set[int]:
    if key.strip().casefold() in _KEYS:
        return _named(value, choices)
    return _in_text(f"{key}: {value}", choices) | _same(value, choices) if isinstance(value, str) else set()


def _in_text(text: str, choices: Sequence[str]) -> set[int]:
    if alone := _NUMBER.fullmatch(text):
        return {int(alone[1])}
    if numbered := _NUMBERED.fullmatch(text):
        number, named = int(numbered[1]), _same(numbered[2], choices)
        fits = 1 <= number <= len(choices) and _plain(choices[number - 1]).startswith(_plain(numbered[2]))
        return named | {number} if fits or named else named
    return _same(text, choices)


def _same(text: str, choices: Sequence[str]) -> set[int]:
    plain = _plain(text)
    return {n for n, choice in enumerate(choices, 1) if plain and _plain(choice) == plain}


def _plain(text: str) -> str:
    return " ".join(text.split()).strip("\"'. ").casefold()
