"""What memories have in common whose entries lead to each other: linked ones come back with those that are found."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ..lm.base import Embedder, LanguageModel
from ..policy import MemoryPolicy
from .stores import Derived, Entry, MemoryState
from .typed import TypedMemory
from .writers import Writing

Links = TypeVar("Links")


class LinkedMemory(TypedMemory, Generic[Links]):
    """A memory of which more comes back than the most similar.

    The knob ``links`` says how many linked memories come with each that is found, which rank below all that are found;
    ``neighbours`` says how many known memories a write looks at for each text.
    """

    def __init__(self, policy: MemoryPolicy, model: LanguageModel, embedder: Embedder) -> None:
        """Start empty."""
        super().__init__(policy, model, embedder)
        self._links = Derived(self._links_of)

    @staticmethod
    @abstractmethod
    def _links_of(entries: Sequence[Entry]) -> Links:
        """Return what says which entries lead to each other."""

    @abstractmethod
    def _linked(self, links: Links, state: MemoryState, place: int) -> Sequence[int]:
        """Return the places of the memories that one at a place leads to, the closest first."""

    async def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each memory, and each message of the buffer, of whose text ``what`` is true; return how many."""
        count = await super().forget(what)
        self._links = Derived(self._links_of)  # the last one holds the entries that it was derived from
        return count

    def _named(self, links: Links, query: str) -> Sequence[int]:
        """Return the places of the memories that a query names, besides the most similar."""
        return ()

    async def _found(self, query: str, state: MemoryState, top_k: int) -> list[int]:
        links = self._links.of(state.entries)  # before the search: what is forgotten during it would be kept
        similar = await self._most_similar(query, state, range(len(state.entries)), top_k)
        places = dict.fromkeys([*similar, *self._named(links, query)])
        count = int(self.policy.knob("links") or 0)
        linked = [other for place in places for other in self._linked(links, state, place)[:count]]
        return [*dict.fromkeys([*places, *linked])]

    async def _near(self, writing: Writing, texts: Sequence[str]) -> list[Entry]:
        """Return the known memories that are nearest to any of some texts, in the order of the state."""
        state, count = writing.state, int(self.policy.knob("neighbours") or 1)
        places = {place for best in await writing.index.search(texts, state.lines, count) for place in best}
        return [state.entries[place] for place in sorted(places)]
