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

DIMENSIONS = 16
"""Of lexical vectors: few, so that words collide and what comes back is only roughly like what is looked for."""


class LexicalEmbedder(Embedder):
    """Vectors of hashed word stems: no model, no call, the same on every machine."""

    name = "lexical"

    def __init__(self, *, dimensions: int = DIMENSIONS) -> None:
        """Make vectors of this many dimensions."""
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Return one row per text, of length 1 (or 0 for a text without content words)."""
        rows = [self._row(text) for text in texts]
        return Embedding(np.array(rows, dtype=np.float32).reshape(len(texts), self.dimensions))

    def _row(self, text: str) -> list[float]:
        row = [0.0] * self.dimensions
        for word, count in Counter(stems(text)).items():
            row[_slot(word, self.dimensions)] += 1.0 + math.log(count)
        length = math.hypot(*row) or 1.0
        return [value / length for value in row]


@lru_cache(maxsize=1 << 16)
def _slot(word: str, dimensions: int) -> int:
    return crc32(word.encode()) % dimensions
