"""Vectors of words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

from ..text import stems
from .base import Bill, Embedder, Embedding

DIMENSIONS = 1024
"""Of lexical vectors: so many that words hardly collide."""


class LexicalEmbedder(Embedder):
    """Vectors of hashed word stems: no model, no call, the same on every machine."""

    name = "lexical"

    def __init__(self, *, dimensions: int = DIMENSIONS) -> None:
        """Make vectors of this many dimensions."""
        self.dimensions = dimensions

    def of_width(self, dimensions: int) -> LexicalEmbedder:
        """Return an embedder that makes vectors of this many dimensions."""
        return LexicalEmbedder(dimensions=dimensions)

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Return one row per text, of length 1 (or 0 for a text without content words)."""
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            slots, values = _vector(text, self.dimensions)
            row[slots] = values
        return Embedding(rows)


@lru_cache(maxsize=1 << 12)
def _vector(text: str, dimensions: int) -> tuple[list[int], list[float]]:
    """Return the slots of a text's words, and their values: the same questions are asked again and again."""
    weights: dict[int, float] = {}
    for word, count in Counter(stems(text)).items():
        slot = _slot(word, dimensions)
        weights[slot] = weights.get(slot, 0.0) + 1.0 + math.log(count)
    slots = sorted(weights)
    length = math.hypot(*(weights[slot] for slot in slots)) or 1.0
    return slots, [weights[slot] / length for slot in slots]


@lru_cache(maxsize=1 << 16)
def _slot(word: str, dimensions: int) -> int:
    return crc32(word.encode()) % dimensions
