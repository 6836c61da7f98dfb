"""Exact similarity search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .lm.base import Embedder, Vectors

Matrix = NDArray[np.float64]

ALIKE = 1e-6
"""Similarities that differ by no more than this are a tie: how a machine rounds never decides what comes back."""


class VectorIndex:
    """Finds the most similar texts; each text is embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        """Start without any vector."""
        self._embedder = embedder
        self._vectors: dict[str, Vectors] = {}
        self._lock = asyncio.Lock()
        self._last: tuple[tuple[str, ...], Matrix] | None = None

    async def search(self, query: str, texts: Sequence[str], top_k: int) -> list[int]:
        """Return the positions of the ``top_k`` texts most similar to ``query``, best first; ties go to the newer."""
        if not texts:
            return []
        matrix = await self._matrix(tuple(texts))
        (vector,) = await self._embedder.embed([query])
        similarity = matrix @ vector.astype(np.float64)
        order = np.argsort(-similarity)
        rank = np.empty(len(texts), dtype=int)
        rank[order] = np.cumsum(np.diff(-similarity[order], prepend=-np.inf) > ALIKE)
        return [int(i) for i in np.lexsort((-np.arange(len(texts)), rank))[:top_k]]

    async def _matrix(self, texts: tuple[str, ...]) -> Matrix:
        if self._last is None or self._last[0] != texts:
            async with self._lock:  # searches side by side would each embed the same new texts
                await self._embed_new(texts)
            self._last = texts, np.stack([self._vectors[text] for text in texts], dtype=np.float64)
        return self._last[1]

    async def _embed_new(self, texts: tuple[str, ...]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, await self._embedder.embed(new), strict=True))
