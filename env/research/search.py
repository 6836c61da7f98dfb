"""A small search over a task's documents: BM25 over stems, the same on every machine."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

from ...data.research.task import Document
from ...policies.text import stems

SATURATION = 1.2
"""How soon a word that stands in a document again adds nothing (BM25's k1)."""
LENGTH = 0.75
"""How much a document's length counts against it, in [0, 1] (BM25's b)."""


class SearchIndex:
    """Finds the documents that a query is most like."""

    def __init__(self, documents: Sequence[Document]) -> None:
        """Index these documents."""
        self._sizes: list[int] = []
        self._places: dict[str, list[tuple[int, int]]] = {}
        """By word, the documents that have it, and how often."""
        for place, document in enumerate(documents):
            words = Counter(stems(f"{document.title}\n{document.text}"))
            self._sizes.append(words.total())
            for word, count in words.items():
                self._places.setdefault(word, []).append((place, count))
        self._mean_size = sum(self._sizes) / max(1, len(documents)) or 1.0

    def search(self, query: str, *, most: int) -> list[int]:
        """Return the places of the documents that share a word with a query, the best first."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in dict.fromkeys(stems(query)):
            having = self._places.get(word, [])
            rarity = math.log(1 + (len(self._sizes) - len(having) + 0.5) / (len(having) + 0.5))
            for place, count in having:
                length = 1 - LENGTH + LENGTH * self._sizes[place] / self._mean_size
                scores[place] += rarity * count * (SATURATION + 1) / (count + SATURATION * length)
        return sorted(scores, key=lambda place: (-scores[place], place))[:most]


@lru_cache(maxsize=16)
def index_of(documents: tuple[Document, ...]) -> SearchIndex:
    """Return the index of documents, which is kept while it is in use."""
    return SearchIndex(documents)
