"""Words, stems and sentences."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

import Stemmer

_STEMMER = Stemmer.Stemmer("english")
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Kana and Chinese characters: no spaces part the words, so that each counts as one."""
_JOINERS = str.maketrans("", "", "\u200c\u200d")
"""Characters without width that join letters of a word, or keep them apart."""
_VARIATIONS = range(0xFE00, 0xFE10)
"""They say how the sign before them looks, and belong to no word."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])|\n+")

STOP_WORDS = frozenset(
    """a about above after again all also although always am an and any anything are aren't around as ask at away back
    be because been before being below between both but by can can't could couldn't did didn't do does doesn't
    doing don't down during each either else even every few for from further get gets getting give given go goes
    going gone got had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers him his how
    how's i i'd i'll i'm i've if in into is isn't it it'd it'll it's its itself just keep kind know let let's
    like lot lots made make makes making many may me might mine more most much must my myself need needs no nor
    not now of off on once one ones only onto or other others our ours out over own per quite rather really same
    say she she'd she'll she's should shouldn't since so some something still such sure take takes than thank
    thanks that that's the their theirs them then there there's these they they'd they'll they're they've thing
    things think this those though through to too try under until up upon us use used user uses using usually
    very want wants was wasn't way we we'd we'll we're we've well were weren't what what's when where which
    while who who's whom why will with within without won't would wouldn't yes yet you you'd you'll you're
    you've your yours yourself""".split()
)


@cache
def _word(*, marked: bool) -> re.Pattern[str]:
    """Return what a word is, with the marks that belong to letters where there are any."""
    own = _marks() if marked else ""
    letter = rf"[^\W_{_UNSPACED}]"
    letters, behind = (f"(?:{each}{own})+" if marked else f"(?:{each})+" for each in (letter, rf"(?!\d){letter}"))
    return re.compile(f"{letters}(?:'{behind})?|[{_UNSPACED}]{own}")


@cache
def _unspaced() -> re.Pattern[str]:
    """Return what a word without spaces around it is, with its marks."""
    return re.compile(f"[{_UNSPACED}]{_marks()}")


@cache
def _marks() -> str:
    """Return the pattern of the marks that belong to a letter."""
    return f"[{''.join(filter(is_mark, map(chr, range(0x300, 0x20000))))}]*"


def is_mark(character: str) -> bool:
    """Tell whether a character belongs to the letter before it."""
    return unicodedata.category(character) in ("Mn", "Mc") and ord(character) not in _VARIATIONS


def composed(text: str) -> str:
    """Return a text in which a letter with its accent is one character, where there is one."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_JOINERS)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return a lower-case word's stem."""
    return str(_STEMMER.stemWord(word))


def whole(text: str) -> str:
    """Return a text with ``?`` for half characters, which can be neither sent nor stored."""
    return text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=1 << 13)
def stems(text: str) -> tuple[str, ...]:
    """Return the stems of a text's content words, in order; snake_case counts as words.

    Endings and words without meaning are English ones; other languages keep theirs.
    """
    return tuple(stem(word) for word in words_in_order(text) if word not in STOP_WORDS)


def words_in_order(text: str) -> list[str]:
    """Return all words of a text in lower case; snake_case counts as words, numbers have no thousands' commas.

    Any script has words. A Chinese or Japanese character is one.
    """
    plain = composed(_THOUSANDS.sub("", text.lower().replace("_", " ").replace("\u2019", "'")))
    marked = not plain.isascii() and any(map(is_mark, plain))
    return _word(marked=marked).findall(plain)


def spaced(text: str) -> str:
    """Return a text with spaces around each Chinese or Japanese character, which is a word; other texts stay."""
    return text if text.isascii() else _unspaced().sub(r" \g<0> ", text)


@lru_cache(maxsize=1 << 12)
def sentences(text: str) -> tuple[str, ...]:
    """Split a text at sentence ends and line breaks; empty pieces are dropped."""
    return tuple(piece for raw in _SENTENCE_END.split(text) if raw and (piece := raw.strip()))
