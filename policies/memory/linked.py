"""What memories have in common whose entries lead to each other: linked ones come back with those that are found."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from ...data.record import first_problem
from .builtin import BuiltinMemory
from .saving import state_as_json, state_of
from .stores import Entry, MemoryState
from .writers import Writer, Writing

SAVED = ("id", "text", "label")
"""Fields that every entry has in a file."""


class LinkedMemory(BuiltinMemory):
    """The built-in memory, but for how ``write.mode: facts`` writes, and for what comes back besides the most similar.

    The knob ``links`` says how many linked memories come with each that is found. They rank below all that are found.
    """

    kind: ClassVar[type[Entry]]
    """Of its entries."""

    @abstractmethod
    async def _write(self, writing: Writing) -> MemoryState:
        """Return the state after a write."""

    @abstractmethod
    def _linked(self, state: MemoryState, place: int) -> Sequence[int]:
        """Return the places of the memories that one at a place leads to, the closest first."""

    @abstractmethod
    def _bare(self, entry: Entry, what: Callable[[str], bool], left: Sequence[int]) -> Entry:
        """Return an entry without the words of which ``what`` is true, and without links but to ids ``left``."""

    @property
    def _writer(self) -> Writer | None:
        return self._write if self.policy.write.mode == "facts" else None

    async def _found(self, query: str, state: MemoryState, top_k: int) -> list[int]:
        best, links = await super()._found(query, state, top_k), int(self.policy.knob("links") or 0)
        linked = [other for place in best for other in self._linked(state, place)[:links]]
        return [*dict.fromkeys([*best, *linked])]

    async def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each memory, and each message of the buffer, of whose text ``what`` is true; return how many."""
        count = await super().forget(what)
        async with self._changing.here():
            left = [entry.id for entry in self._state.entries]
            entries = tuple(self._bare(entry, what, left) for entry in self._state.entries)
            self._state = replace(self._state, entries=entries)
        return count

    async def dump(self) -> Any:
        """Return the present state as plain JSON values."""
        return state_as_json(self._state) | {"entries": [_plain(entry) for entry in self._state.entries]}

    async def load(self, values: Any) -> None:
        """Go back to a state that ``dump`` has returned. Raises ValueError, naming the field at fault."""
        given = values.get("entries", ()) if isinstance(values, dict) else ()
        whole = isinstance(given, list) and all(isinstance(entry, dict) for entry in given)
        bare = [{name: entry[name] for name in SAVED if name in entry} for entry in given] if whole else given
        state = state_of(values | {"entries": bare} if isinstance(values, dict) else values)
        try:
            entries = TypeAdapter(tuple[self.kind, ...]).validate_python(given)  # type: ignore[name-defined]
        except ValidationError as error:
            raise ValueError(f"entries.{first_problem(error, whole='its fields')}") from None
        await self.restore(replace(state, entries=entries))


def listed_entries(state: MemoryState, places: Sequence[int]) -> list[Entry]:
    """Return the entries at some places, in the order of the state."""
    return [state.entries[place] for place in sorted({*places})]


def _plain(entry: Entry) -> dict[str, Any]:
    fields = {name: [*value] if isinstance(value, tuple) else value for name, value in asdict(entry).items()}
    return {name: value for name, value in fields.items() if name in ("id", "text") or value}
