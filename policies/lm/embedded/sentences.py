"""What the reader sees: sentences, each with its words, its voice and its day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ...text import sentences, stems
from .lexicon import KIN_SIGN, kin
from .quantities import Quantity, levels, quantities

Codes = NDArray[np.int64]


@lru_cache(maxsize=1 << 13)
def codes_of(words: frozenset[str]) -> Codes:
    """Return a number for each word, in the words' order, read-only: sums over them are the same in every process.

    It is odd where the word names a group of kindred words.
    """
    codes = np.array([_code(word) for word in sorted(words)], dtype=np.int64)
    codes.flags.writeable = False
    return codes


NO_CODE = np.iinfo(np.int64).max
"""More than the number of any word."""


@lru_cache(maxsize=1 << 16)
def _code(word: str) -> int:
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return 2 * int.from_bytes(digest, "big") + word.startswith(KIN_SIGN)


@dataclass(frozen=True)
class Words:
    """What a piece of text says, for a reader of words."""

    plain: frozenset[str]
    """Stems of its content words."""
    kin: frozenset[str]
    """Names of the groups of kindred words that it touches."""
    quantities: tuple[Quantity, ...] = ()

    @cached_property
    def codes(self) -> Codes:
        """The numbers of its words, in the words' order."""
        return codes_of(self.all)

    @cached_property
    def all(self) -> frozenset[str]:
        """Stems and names of groups together."""
        return self.plain | self.kin


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence of the conversation as the reader sees it."""

    text: str
    said: Words
    """What it says; what it denies is left out."""
    voice: float
    """How much it tells of the user: 1 for the user's statement about the user, 0 for other people's doings."""
    day: str = ""
    """The day on which it was said, as YYYY-MM-DD; empty when it is not known."""

    @property
    def words(self) -> frozenset[str]:
        """Stems of its content words and names of the groups that they belong to."""
        return self.said.all


_FIRST_PERSON = re.compile(r"\b(i|i'm|i've|i'd|i'll|we|we're|we've|we'd|we'll|my|our|me|us|mine|ours)\b", re.IGNORECASE)
_RELATIVE = (
    r"(?:\w+ ){0,2}(?:sister|brother|mother|mum|mom|father|dad|aunt|uncle|cousin|neighbou?rs?|friends?|colleagues?|"
    r"boss|coworkers?|parents|grand\w+|nieces?|nephews?|flatmate|roommate|teacher|coach|\w+-in-law)"
)
_SOMEBODY_ELSE = re.compile(
    rf"^(?:(?:my|our|a|an|the|one of my|some of my|most of my) {_RELATIVE}|(?:he|she|they|people|everyone|somebody)\b)|"
    rf"\b(?:my|our) {_RELATIVE}(?:'s)? "
    r"(?:has|is|was|says|keeps|swears|lives|loves|always|never|just|went|only|used|does|got)\b",
    re.IGNORECASE,
)
_OF_USER = re.compile(r"^- (?:the )?user('s)? ", re.IGNORECASE)
"""The beginning of a note of the user in the third person."""
_TIME = re.compile(r"^(?:- )?(?:user: |assistant: )?\[Current Time: [^\]]*\]$")
_TIME_PREFIX = re.compile(r"^\[Current Time: (\d{4}-\d{2}-\d{2})[^\]]*\]\s*")
TIME_LINE = re.compile(r"^\[Current Time: [^\]]*\]\s*")
"""What stands before a message that tells its time."""
_DATED = re.compile(r"\s*\((\d{4}-\d{2}-\d{2})\)$")
_KEY_VALUE = re.compile(r'^\s*"([^"]+)"\s*:\s*"([^"]*)"\s*,?\s*$')
_CLAUSE = r"(?=[,;:.!?\u2014]| but | so | now |$)"
_LEFT = re.compile(  # "switched from A to B"
    r"\b(?:switched|switching|moved|moving|changed|changing|went|gone|shifted|shifting|away|over) from\b"
    r"(?:(?! to |[,;:.!?\u2014]).)*(?= to |[,;:.!?\u2014]|$)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:no longer|not any ?more|stopped|gave up|given up|quit|used to|instead of|rather than|compared (?:to|with)|"
    r"as opposed to|unlike|no more|like before|than (?:my|our|the) (?:usual|old|previous))\b.*?" + _CLAUSE,
    re.IGNORECASE,
)

_CHANGE = re.compile(
    r"\b(?:now|nowadays|these days|recently|lately|no longer|any ?more|since|instead|switched|switching|changed|moved|"
    r"started|stopped|gone back|went back|given up|gave up|swapped|replaced|used to|new|just|"
    r"this (?:month|year|week))\b",
    re.IGNORECASE,
)

OWN, ASKS, OTHER, NOBODY = 1.0, 0.5, 0.25, 0.0
"""Voices: the user states something of the user; asks as one concerned; says anything else; somebody else's doings."""


def about_self(text: str) -> bool:
    """Tell whether a sentence is a statement in the first person about the speaker."""
    return not text.endswith("?") and _FIRST_PERSON.search(text) is not None and not is_others(text)


def is_others(text: str) -> bool:
    """Tell whether a sentence is about other people's doings."""
    return _SOMEBODY_ELSE.search(text) is not None


def tells_change(text: str) -> bool:
    """Tell whether a sentence says that something is not as it was."""
    return _CHANGE.search(text) is not None


@lru_cache(maxsize=1 << 14)
def words_of(text: str) -> Words:
    """Return what a text says."""
    counted = quantities(text)
    groups = frozenset(KIN_SIGN + group for quantity in counted for group in levels(quantity))
    return Words(frozenset(stems(text)), kin(text) | groups, counted)


def affirmed(text: str) -> str:
    """Return a sentence without what it says is no more."""
    return _DENIED.sub(" ", _LEFT.sub(" ", text))


@lru_cache(maxsize=1 << 15)
def _sentence(text: str, voice: float | None, day: str) -> Sentence:
    said = words_of(affirmed(text))
    return Sentence(text, said if said.all else words_of(text), _voice(text) if voice is None else voice, day)


def _voice(text: str) -> float:
    if is_others(text):
        return NOBODY
    if _FIRST_PERSON.search(text):
        return ASKS if text.endswith("?") else OWN
    return OTHER


@lru_cache(maxsize=1 << 14)
def message_sentences(role: str, content: str) -> tuple[Sentence, ...]:
    """Return a message's sentences.

    A system message holds memories: notes are the user's own; quoted talk of the user ("user: ...") is not as loud.
    """
    return tuple(_sentences(role, content))


def _sentences(role: str, content: str) -> Iterator[Sentence]:
    voice, day = NOBODY if role == "assistant" else None, ""
    prefix = _TIME_PREFIX.match(content)
    if prefix:
        day, content = prefix[1], content[prefix.end() :]
    for line in content.splitlines():
        if role == "system" and line.startswith("- "):
            voice = _voice_of_note(line)
        yield from _line_sentences(line, voice, day)


@lru_cache(maxsize=1 << 15)
def _voice_of_note(line: str) -> float | None:
    if line.startswith("- assistant:"):
        return NOBODY
    if line.startswith("- user:"):
        return OTHER
    of_user = _OF_USER.match(line)
    return _voice(("my " if of_user[1] else "I ") + line[of_user.end() :]) if of_user else None


@lru_cache(maxsize=1 << 15)
def _line_sentences(line: str, voice: float | None, day: str) -> tuple[Sentence, ...]:
    if _TIME.match(line):  # a line of its own, which the reader does not carry over to the next
        return ()
    dated = _DATED.search(line)
    text = _DATED.sub("", line).removeprefix("- ").removeprefix("user: ").removeprefix("assistant: ")
    return tuple(_sentence(piece, voice, dated[1] if dated else day) for piece in sentences(text))


def read_state_lines(text: str) -> Iterator[Sentence]:
    """Yield each line of the form ``"key": "value"`` as a statement of the user."""
    for line in text.splitlines():
        pair = _KEY_VALUE.match(line)
        if pair:
            yield Sentence(line, words_of(pair[2]), OWN)
