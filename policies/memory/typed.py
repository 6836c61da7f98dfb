"""What memories have in common that write in their own way, into entries of their own kind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
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


class TypedMemory(BuiltinMemory):
    """The built-in memory, but for how ``write.mode: facts`` writes, and for what its entries say besides a text."""

    kind: ClassVar[type[Entry]] = Entry
    """Of its entries."""

    @abstractmethod
    async def _write(self, writing: Writing) -> MemoryState:
        """Return the state after a write."""

    @property
    def _writer(self) -> Writer | None:
        return self._write if self.policy.write.mode == "facts" else None

    async def dump(self) -> Any:
        """Return the present state as plain JSON values."""
        return state_as_json(self._state) | {"entries": [_plain(entry) for entry in self._state.entries]}

    async def load(self, values: Any) -> None:
        """Go back to a state that ``dump`` has returned. Raises ValueError, naming the field at fault."""
        given = values.get("entries", ()) if isinstance(values, dict) else ()
        whole = isinstance(given, list) and all(isinstance(entry, dict) for entry in given)
        bare = [{name: entry[name] for name in SAVED if name in entry} for entry in given] if whole else given
        state = state_of(values | {"entries": bare} if isinstance(values, dict) else values)
        await self.restore(replace(state, entries=_entries_of(self.kind, given)))


def _entries_of(kind: type[Entry], values: Sequence[Any]) -> tuple[Entry, ...]:
    adapter, entries = TypeAdapter(kind), list[Entry]()
    for place, value in enumerate(values):
        try:
            entries.append(adapter.validate_python(value))
        except ValidationError as error:
            raise ValueError(f"entries.{place}.{first_problem(error, whole='its fields')}") from None
    return tuple(entries)


def _plain(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain JSON values; fields without a value are left out."""
    fields = {name: [*value] if isinstance(value, tuple) else value for name, value in asdict(entry).items()}
    return {name: value for name, value in fields.items() if name in ("id", "text") or value}
