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

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Return one row per text, of length 1 (or 0 for a text without content words)."""
        rows = np.zeros((len(texts), self.dimensions))
        for row, text in zip(rows, texts, strict=True):
            for word, count in Counter(stems(text)).items():
                row[_slot(word, self.dimensions)] += 1.0 + math.log(count)
            row /= math.hypot(*row[row > 0]) or 1.0
        return Embedding(rows.astype(np.float32))


@lru_cache(maxsize=1 << 16)
def _slot(word: str, dimensions: int) -> int:
    return crc32(word.encode()) % dimensions
