"""What memories have in common whose entries lead to each other: linked ones come back with those that are found."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from .stores import Entry, MemoryState
from .typed import TypedMemory


class LinkedMemory(TypedMemory):
    """A memory of which more comes back than the most similar.

    The knob ``links`` says how many linked memories come with each that is found. They rank below all that are found.
    """

    @abstractmethod
    def _linked(self, state: MemoryState, place: int) -> Sequence[int]:
        """Return the places of the memories that one at a place leads to, the closest first."""

    async def _found(self, query: str, state: MemoryState, top_k: int) -> list[int]:
        return self._with_linked(state, await super()._found(query, state, top_k))

    def _with_linked(self, state: MemoryState, places: Sequence[int]) -> list[int]:
        """Return places, and after them those that they lead to."""
        links = int(self.policy.knob("links") or 0)
        linked = [other for place in dict.fromkeys(places) for other in self._linked(state, place)[:links]]
        return [*dict.fromkeys([*places, *linked])]


def listed_entries(state: MemoryState, places: Sequence[int]) -> list[Entry]:
    """Return the entries at some places, in the order of the state."""
    return [state.entries[place] for place in sorted({*places})]
