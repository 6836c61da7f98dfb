"""Words, stems and sentences, and vectors made of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np
import snowballstemmer

from .lm.base import Embedder, Embedding

_STEMMER = snowballstemmer.stemmer("english")
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])|\n+")

DIMENSIONS = 16
"""Of lexical vectors: few, so that words collide and what comes back is only roughly like what is looked for."""

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


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return a lower-case word's stem."""
    return str(_STEMMER.stemWord(word))


@lru_cache(maxsize=1 << 15)
def stems(text: str) -> tuple[str, ...]:
    """Return the stems of a text's content words, in order; snake_case counts as words."""
    return tuple(stem(word) for word in words_in_order(text) if word not in STOP_WORDS)


def words_in_order(text: str) -> list[str]:
    """Return all words of a text in lower case; snake_case counts as words, numbers have no thousands' commas."""
    return _WORD.findall(_THOUSANDS.sub("", text.lower().replace("_", " ").replace("\u2019", "'")))


@lru_cache(maxsize=1 << 15)
def sentences(text: str) -> tuple[str, ...]:
    """Split a text at sentence ends and line breaks; empty pieces are dropped."""
    return tuple(piece for raw in _SENTENCE_END.split(text) if raw and (piece := raw.strip()))


class LexicalEmbedder(Embedder):
    """Vectors of hashed word stems: no model, no call, the same on every machine."""

    name = "lexical"

    def __init__(self, *, dimensions: int = DIMENSIONS) -> None:
        """Make vectors of this many dimensions."""
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str], *, unanswered: Callable[[], None] | None = None) -> Embedding:
        """Return one row per text, of length 1 (or 0 for a text without content words)."""
        rows = [self._row(text) for text in texts]
        return Embedding(np.array(rows, dtype=np.float32).reshape(len(texts), self.dimensions))

    async def aclose(self) -> None:
        """Nothing to release."""

    def _row(self, text: str) -> list[float]:
        row = [0.0] * self.dimensions
        for word, count in Counter(stems(text)).items():
            row[_slot(word, self.dimensions)] += 1.0 + math.log(count)
        length = math.hypot(*row) or 1.0
        return [value / length for value in row]


@lru_cache(maxsize=1 << 16)
def _slot(word: str, dimensions: int) -> int:
    return crc32(word.encode()) % dimensions
