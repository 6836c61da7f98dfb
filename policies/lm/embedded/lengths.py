"""Limits of length that prompts state: "at most ten words", "20 words or more"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from .wording import FIELDS, split_sentences

NUMBERS = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty".split(),
        start=1,
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100, "dozen": 12}
LONGEST_NOTE = 200
"""Words above which a length is that of a whole text and not of a note."""

_NUMBER = rf"(?:an? |some )?(\d{{1,5}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))})"
_LENGTH = re.compile(rf"\b(?:(?:{_NUMBER})[ -](?:to|and|or|-)[ -])?{_NUMBER}[ -](word|token|term)s?\b")
_ALSO_RANGE = re.compile(r"(?<=\d)\s*[-\u2013]\s*(?=\d)")
_LEAST = re.compile(
    r"\b(?:at least|not (?:less|fewer|shorter) than|no (?:less|fewer|shorter) than|a minimum of|minimum|more than|over|"
    r"from|never (?:less|fewer) than)\s*$"
)
_NOT_MORE = re.compile(r"\b(?:no|not|never|hardly|any|don't use|without)(?: \w+){0,2} (?:more|longer|over)[\w ]*$")
_LEAST_AFTER = re.compile(r"^\s*(?:or more|or longer|and more|at least|minimum|and up)\b")
_UNBOUND = re.compile(
    r"\b(?:do not|don't|never|no need to|needn't|need not)\b[^,;.]*\b(?:limit|restrict|confine|cut)\b"
)
_FIELD = rf"(?:{'|'.join(sorted(FIELDS))})"
_OF_A_FIELD = re.compile(rf"\b{_FIELD}\b[^,;.]{{0,25}}$")
_FIELD_AFTER = re.compile(rf"^\s*(?:long )?(?:(?:per|for|as|in) )?(?:(?:the|each|every|a) )?{_FIELD}\b")
"""What is named of a note besides its text, with a length of its own."""
_WHOLE = re.compile(r"^\s*(?:in all|in total|altogether|overall|for the whole|a day|per day)\b")


def limits(text: str) -> Iterator[tuple[str, int, int | None]]:
    """Yield each length that a text states: its unit, ``word`` or ``token``, the least and the most of it.

    The most is None where it is open; what concerns no single note but all of them has a unit with ``s``.
    """
    for sentence in split_sentences(text):
        yield from _limits(" ".join(sentence.lower().replace("\u2019", "'").split()))


def _limits(sentence: str) -> Iterator[tuple[str, int, int | None]]:
    sentence = _ALSO_RANGE.sub(" to ", sentence)
    for match in _LENGTH.finditer(sentence):
        before, after = re.split(r"[.;]", sentence[: match.start()])[-1], sentence[match.end() :]
        if _UNBOUND.search(before) or _OF_A_FIELD.search(before) or _FIELD_AFTER.match(after):
            continue
        unit = ("token" if match[3] == "token" else "word") + "s" * bool(_WHOLE.match(after))
        number = _number(match[2])
        if (_LEAST.search(before) and not _NOT_MORE.search(before)) or _LEAST_AFTER.match(after):
            yield unit, number, None
        else:
            yield unit, 0, number


def word_limits(text: str) -> tuple[int, float]:
    """Return the least and the most words of a note that a text states: 1 and infinity where it states none."""
    low, high = 1, math.inf
    for unit, least, most in limits(text):
        if unit == "word" and 0 < (most or least) <= LONGEST_NOTE:
            low, high = max(low, least), min(high, most if most is not None else math.inf)
    return low, max(low, high)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else NUMBERS[text]
