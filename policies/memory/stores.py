"""Where memories are kept: the state as an immutable value, and an index of vectors for exact similarity search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...data.per_loop import PerLoop
from ..lm.base import Embedder, Message, Vectors

Matrix = NDArray[np.float64]
T = TypeVar("T")

ROWS_A_BLOCK = 32
SPARE_ROWS = 1024
"""Vectors that may lie beside twice those of a memory's texts: to embed a text again costs a call."""
CANDIDATES = 2
"""Where likeness among the texts counts, it is looked at among so many times the texts that are wanted."""
ROWS_A_THREAD = 16
"""Products of more rows are shared out among threads, which wait for each other where all cores are at work."""
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

    @property
    def tellings(self) -> tuple[str, ...]:
        """The texts by any of which it is forgotten."""
        return (self.line,)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The texts that it keeps and never shows."""
        return ()

    def without(self, what: Callable[[str], bool], left: Set[int]) -> Self:
        """Return it without the words of which ``what`` is true, and without links but to the ids ``left``."""
        return self


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
    """Entries whose lines are known, so that a long memory does not go through all of them for each look at them."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The memories, one line each."""
        known, lines = self._known
        if known is not self.entries:
            lines = tuple(entry.line for entry in self.entries)
            object.__setattr__(self, "_known", (self.entries, lines))
        return lines

    def with_new(self, texts: Sequence[str]) -> MemoryState:
        """Return the state after these were written, each as a memory of its own."""
        new = tuple(Entry(self.next_id + i, text) for i, text in enumerate(texts))
        entries, lines = self.entries + new, self.lines + tuple(entry.line for entry in new)
        return replace(self, entries=entries, next_id=self.next_id + len(new), _known=(entries, lines))


class Derived(Generic[T]):
    """What is derived from the entries of a state, once for as long as they stay the same."""

    def __init__(self, derive: Callable[[Sequence[Entry]], T]) -> None:
        """Derive it by this function."""
        self._derive = derive
        self._last: tuple[Sequence[Entry], T] | None = None

    def of(self, entries: Sequence[Entry]) -> T:
        """Return what is derived from these entries, the tuple of a state."""
        last = self._last
        if last is None or last[0] is not entries:
            self._last = last = entries, self._derive(entries)
        return last[1]


@dataclass(frozen=True, slots=True)
class Ranking:
    """How texts are ranked besides by similarity. Both shares are in [0, 1], and 0 changes nothing."""

    diversity: float = 0.0
    """Share of its likeness to the most similar newer text that is taken off a text's likeness to the query."""
    recency: float = 0.0
    """Share that age has in the ranks of the ``top_k`` texts, beside what they are worth without it."""


BY_SIMILARITY = Ranking()


class VectorIndex:
    """Finds the most similar texts; each text is embedded once.

    Vectors are kept as they came, in blocks of equal size: one array that grows leaves holes in a process's memory.
    """

    def __init__(self, embedder: Embedder) -> None:
        """Start without any vector."""
        self._embedder = embedder
        self._rows: dict[str, int] = {}
        """By text, counted over all blocks."""
        self._free: list[int] = []
        self._blocks: list[Vectors] = []
        self._compared: dict[tuple[int, ...], Matrix] = {}
        """Of the rows that were compared with each other last, their likeness to newer ones."""
        self._lock = PerLoop(asyncio.Lock)
        self._searches: set[object] = set()
        """Those under way."""
        self._forgotten: list[Callable[[str], bool]] = []
        """What was forgotten during those: they may have its texts still."""

    @property
    def size(self) -> int:
        """How many vectors there are."""
        return len(self._rows)

    async def search(
        self, queries: Sequence[str], texts: Sequence[str], top_k: int, ranking: Ranking = BY_SIMILARITY
    ) -> list[list[int]]:
        """Return, for each query, the positions of the ``top_k`` texts most similar to it, best first.

        ``texts`` are ordered from old to new; ties go to the newer. There is at least one query; all of it is one call
        of the embedder. What is forgotten meanwhile is not found.
        """
        if not texts:
            return [[] for _ in queries]
        with self._under_way():
            wanted = (await self._embed(queries, texts)).astype(np.float64)
        left = [place for place, text in enumerate(texts) if text in self._rows]
        if not left:
            return [[] for _ in queries]
        rows = [self._rows[texts[place]] for place in left]
        best = [self._ranked(self._similarity(query)[rows], rows, top_k, ranking) for query in wanted]
        return [[left[i] for i in places] for places in best]

    def forget(self, what: Callable[[str], bool]) -> None:
        """Drop each text of which ``what`` is true, and its vector; one that is searched again is embedded again."""
        if self._searches:
            self._forgotten.append(what)
        self._drop([text for text in self._rows if what(text)])

    def shrink(self, texts: Sequence[str]) -> None:
        """Drop the vectors of all but some texts, where they have become many: of what was overwritten.

        One that is searched again is embedded again.
        """
        if self.size > 2 * len(texts) + SPARE_ROWS:
            kept = frozenset(texts)
            self._drop([text for text in self._rows if text not in kept])

    def _drop(self, texts: Sequence[str]) -> None:
        for text in texts:
            row = self._rows.pop(text)
            block, place = divmod(row, ROWS_A_BLOCK)
            self._blocks[block][place] = 0.0
            self._free.append(row)
        self._compared = {}

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        search = object()
        self._searches.add(search)
        try:
            yield
        finally:
            self._searches.discard(search)
            if not self._searches:
                self._forgotten = []

    def _similarity(self, query: Matrix) -> Matrix:
        """Return the similarity of every row to a query, whose vector may be zeros for the most part."""
        used = np.flatnonzero(query)
        columns = np.concatenate([block.take(used, axis=1) for block in self._blocks])
        return columns.astype(np.float64) @ query[used]

    def _ranked(self, similar: Matrix, rows: Sequence[int], top_k: int, ranking: Ranking) -> list[int]:
        places = sorted(_best(similar, CANDIDATES * top_k if ranking.diversity else top_k))
        worth = similar[places]
        if ranking.diversity:
            worth = worth - ranking.diversity * self._likeness(tuple(rows[place] for place in places))
        best = _best(worth, top_k)
        if ranking.recency:
            best = _newer_first(worth, best, ranking.recency)
        return [places[i] for i in best]

    def _likeness(self, rows: tuple[int, ...]) -> Matrix:
        """Return each row's likeness to the most similar newer one: the same for every query while all rows compete."""
        if rows not in self._compared:
            vectors = np.stack([self._blocks[row // ROWS_A_BLOCK][row % ROWS_A_BLOCK] for row in rows])
            self._compared = {rows: _likeness_to_newer(vectors)}
        return self._compared[rows]

    async def _embed(self, queries: Sequence[str], texts: Sequence[str]) -> Vectors:
        """Return the vectors of the queries; those of texts that are new come with them."""
        if any(text not in self._rows for text in texts):
            async with self._lock.here():  # searches side by side would each embed the same new texts
                new = [text for text in dict.fromkeys(texts) if text not in self._rows]
                if new:
                    vectors = (await self._embedder.embed([*new, *queries])).vectors
                    for text, vector in zip(new, vectors[: len(new)], strict=True):
                        if not any(what(text) for what in self._forgotten):
                            self._keep(text, vector)
                    return vectors[len(new) :]
        return (await self._embedder.embed(queries)).vectors

    def _keep(self, text: str, vector: Vectors) -> None:
        if not self._free:
            first = len(self._blocks) * ROWS_A_BLOCK
            self._blocks.append(np.zeros((ROWS_A_BLOCK, len(vector)), np.float32))
            self._free = list(range(first, first + ROWS_A_BLOCK))[::-1]
        self._rows[text] = row = self._free.pop()
        block, place = divmod(row, ROWS_A_BLOCK)
        self._blocks[block][place] = vector


def _likeness_to_newer(vectors: Vectors) -> Matrix:
    """Return each text's likeness to the most similar of those after it, from 0 up; 0 for the last."""
    most = np.zeros(len(vectors))
    starts = range(0, len(vectors), ROWS_A_THREAD)
    for one, other in combinations_with_replacement(starts, 2):
        rows = slice(one, one + ROWS_A_THREAD)
        like = vectors[rows] @ vectors[other : other + ROWS_A_THREAD].T
        most[rows] = np.maximum(most[rows], (np.triu(like, 1) if one == other else like).max(axis=1))
    return most


def _newer_first(worth: Matrix, best: Sequence[int], recency: float) -> list[int]:
    """Return the positions ``best`` in the order of worth and age together, each scaled to [0, 1] among them."""
    places = sorted(best)
    found = worth[places]
    spread = float(np.ptp(found))
    scaled = (found - found.min()) / spread if spread > ALIKE else np.zeros(len(places))
    age = np.linspace(0, 1, len(places))
    return [places[i] for i in _best((1 - recency) * scaled + recency * age, len(places))]


def _best(similarity: Matrix, top_k: int) -> list[int]:
    """Return the positions of the greatest, the greatest first; of those that are alike, the last comes first."""
    order = np.argsort(-similarity)
    falling = similarity[order]
    rank = np.concatenate([[0], np.cumsum(falling[:-1] - falling[1:] > ALIKE)])
    found = np.searchsorted(rank, rank[min(top_k, len(rank)) - 1], side="right")  # with all that tie with the last
    places: list[int] = order[np.lexsort((-order[:found], rank[:found]))][:top_k].tolist()
    return places
