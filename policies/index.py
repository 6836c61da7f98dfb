"""Exact similarity search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from .lm.base import Embedder, Vectors


class VectorIndex:
    """Finds the most similar texts; each text is embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        """Start without any vector."""
        self._embedder = embedder
        self._vectors: dict[str, Vectors] = {}
        self._lock = asyncio.Lock()
        self._last: tuple[tuple[str, ...], Vectors] | None = None

    async def search(self, query: str, texts: Sequence[str], top_k: int) -> list[int]:
        """Return the positions of the ``top_k`` texts most similar to ``query``, best first; ties go to the newer."""
        if not texts:
            return []
        matrix = await self._matrix(tuple(texts))
        (vector,) = await self._embedder.embed([query])
        similarity = matrix @ vector
        positions = np.arange(len(texts))
        order = np.lexsort((-positions, -np.round(similarity, 6)))
        return [int(i) for i in order[:top_k]]

    async def _matrix(self, texts: tuple[str, ...]) -> Vectors:
        if self._last is None or self._last[0] != texts:
            async with self._lock:  # searches side by side would each embed the same new texts
                await self._embed_new(texts)
            self._last = texts, np.stack([self._vectors[text] for text in texts])
        return self._last[1]

    async def _embed_new(self, texts: tuple[str, ...]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, await self._embedder.embed(new), strict=True))
