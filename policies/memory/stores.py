"""Where memories are kept: the state as an immutable value, and an index of vectors for exact similarity search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..lm.base import Embedder, Message, Vectors

Matrix = NDArray[np.float64]

ALIKE = 1e-6
"""Similarities that differ by no more than this are a tie: how a machine rounds never decides what comes back."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory; ``id`` is its place in the order of first writes."""

    id: int
    text: str
    label: str = ""

    @property
    def line(self) -> str:
        """The memory as one item of a prompt."""
        return f"{self.label}: {self.text}" if self.label else self.text


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Everything a memory knows, as an immutable value; ``entries`` are ordered by last write, oldest first."""

    buffer: tuple[Message, ...] = ()
    entries: tuple[Entry, ...] = ()
    next_id: int = 0
    start: tuple[Message, ...] = ()
    """The task's first messages, which never leave; the buffer has those that came after them."""
    observed: int = 0
    """Messages that were observed."""
    _known: tuple[tuple[Entry, ...], tuple[str, ...]] = field(default=((), ()), repr=False, compare=False)
    """Entries whose lines are known, so that a memory that only grows does not go through all of them at each write."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The memories, one line each."""
        known, lines = self._known
        return lines if known is self.entries else tuple(entry.line for entry in self.entries)

    def with_new(self, texts: Sequence[str]) -> MemoryState:
        """Return the state after these were written, each as a memory of its own."""
        new = tuple(Entry(self.next_id + i, text) for i, text in enumerate(texts))
        entries, lines = self.entries + new, self.lines + tuple(entry.line for entry in new)
        return replace(self, entries=entries, next_id=self.next_id + len(new), _known=(entries, lines))


class VectorIndex:
    """Finds the most similar texts; each text is embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        """Start without any vector."""
        self._embedder = embedder
        self._vectors: dict[str, Vectors] = {}
        self._lock = asyncio.Lock()
        self._last: tuple[tuple[str, ...], Vectors] | None = None

    async def search(self, queries: Sequence[str], texts: Sequence[str], top_k: int) -> list[list[int]]:
        """Return, for each query, the positions of the ``top_k`` texts most similar to it, best first.

        Ties go to the newer. There is at least one query; all of it is one call of the embedder.
        """
        if not texts:
            return [[] for _ in queries]
        vectors = await self._embed(queries, tuple(texts))
        matrix = self._matrix(tuple(texts)).astype(np.float64)  # kept as it came, in half the memory
        return [_best(matrix @ vector.astype(np.float64), top_k) for vector in vectors]

    def forget(self, texts: Sequence[str]) -> None:
        """Drop the vectors of texts; a text that is searched again is embedded again."""
        self._last = None
        for text in texts:
            self._vectors.pop(text, None)

    async def _embed(self, queries: Sequence[str], texts: tuple[str, ...]) -> Vectors:
        """Return the vectors of the queries; those of texts that are new come with them."""
        if self._last is None or self._last[0] != texts:
            async with self._lock:  # searches side by side would each embed the same new texts
                new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
                if new:
                    vectors = (await self._embedder.embed([*new, *queries])).vectors
                    self._vectors.update(zip(new, map(np.copy, vectors[: len(new)]), strict=True))  # rows hold them all
                    return vectors[len(new) :]
        return (await self._embedder.embed(queries)).vectors

    def _matrix(self, texts: tuple[str, ...]) -> Vectors:
        if self._last is None or self._last[0] != texts:
            self._last = texts, np.stack([self._vectors[text] for text in texts])
        return self._last[1]


def _best(similarity: Matrix, top_k: int) -> list[int]:
    """Return the positions of the greatest, the greatest first; of those that are alike, the last comes first."""
    order = np.argsort(-similarity)
    rank = np.empty(len(similarity), dtype=int)
    rank[order] = np.cumsum(np.diff(-similarity[order], prepend=-np.inf) > ALIKE)
    return [int(i) for i in np.lexsort((-np.arange(len(similarity)), rank))[:top_k]]
