"""The memory of another package behind the protocol: our buffer and budget, its writes and its search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...lm.base import Embedder, LanguageModel, Message
from ...policy import MemoryPolicy
from ..builtin import BuiltinMemory
from ..protocol import MemoryEvent, MemoryFault
from ..saving import state_as_json, state_of
from ..stores import Entry, MemoryState
from .endpoint import Endpoint
from .process import Store, process_of


@dataclass(frozen=True, slots=True)
class PackageState(MemoryState):
    """What is remembered: the buffer is here, the memories are in the package's store."""

    store: Store | None = None
    """None while nothing is written."""
    names: tuple[str, ...] = ()
    """What the package calls the entries."""


class PackageMemory(BuiltinMemory):
    """A memory that hands what leaves the buffer to a package, and shows the ``top_k`` memories that it finds.

    Prompts for writing are the package's own.
    """

    package = ""

    def __init__(self, policy: MemoryPolicy, model: LanguageModel, embedder: Embedder) -> None:
        """Start empty. Raises PackageError where no interpreter has the package."""
        super().__init__(policy, model, embedder)
        self._process = process_of(self.package)
        self._endpoint = Endpoint(model, embedder)
        self._state: PackageState = PackageState()

    async def dump(self) -> Any:
        """Return the present state as plain JSON values, with what the package keeps."""
        state = self._state
        values = state_as_json(state) | {"names": [*state.names]}
        if state.store is None:
            return values
        return values | {"store": await self._process.ask("dump", store=state.store)}

    async def load(self, values: Any) -> None:
        """Go back to a state that ``dump`` has returned. Raises ValueError, naming the field at fault."""
        given = {**values} if isinstance(values, dict) else values
        names, kept = (given.pop("names", []), given.pop("store", None)) if isinstance(given, dict) else ([], None)
        state = state_of(given)
        if not isinstance(names, list) or len(names) != len(state.entries):
            raise ValueError("names: not one name for each of `entries`")
        if names and kept is None:
            raise ValueError("store: missing")
        pairs = [[name, entry.text] for name, entry in zip(names, state.entries, strict=True)]
        store = None if kept is None else await self._loaded(kept, pairs)
        fields = (state.buffer, state.entries, state.next_id, state.start, state.observed)
        await self.restore(PackageState(*fields, store=store, names=tuple(names)))

    async def _loaded(self, kept: Any, pairs: Sequence[Sequence[str]]) -> Store:
        """Return a new store that holds what another one kept, of which the names and texts are known."""
        store = self._process.store()
        try:
            async with self._endpoint.open() as endpoint:
                listed = await self._process.ask("load", new=store, endpoint=endpoint, values=kept)
        except MemoryFault as error:
            raise ValueError(f"store: {error}") from None
        if listed != pairs:
            raise ValueError("store: it does not hold the memories of `entries`")
        return store

    async def aclose(self) -> None:
        """Stop serving the model to the package."""
        await self._endpoint.aclose()

    def _without_memories(self) -> PackageState:
        return replace(self._state, entries=(), next_id=0, store=None, names=())

    async def _forget_elsewhere(self, what: Callable[[str], bool]) -> None:
        """Have the package forget memories, and messages that it keeps to write by."""
        state = self._state
        if state.store is None:
            return
        pairs = [*zip(state.names, state.entries, strict=True)]
        names = [name for name, entry in pairs if what(entry.line)]
        kept = await self._process.ask("said", store=state.store)
        said = [name for name, text in kept if what(text)]
        if names or said:
            new = self._process.store()
            async with self._endpoint.open() as endpoint:
                request = {"endpoint": endpoint, "names": names, "said": said}
                await self._process.ask("forget", store=state.store, new=new, **request)
            left = tuple(name for name, entry in pairs if not what(entry.line))
            self._state = replace(state, store=new, names=left)

    async def _found(self, query: str, state: MemoryState, top_k: int) -> list[int]:
        if not isinstance(state, PackageState) or state.store is None or not query.strip():
            return [*range(len(state.entries))[::-1][:top_k]]
        async with self._endpoint.open() as endpoint:
            request = {"endpoint": endpoint, "query": query, "limit": top_k}
            found = await self._process.ask("search", store=state.store, **request)
        places = {name: place for place, name in enumerate(state.names)}
        return [places[name] for name in found if name in places]

    async def _written(self, after: MemoryState, evicted: tuple[Message, ...]) -> tuple[MemoryState, MemoryEvent]:
        state, new = self._state, self._process.store()
        spoken = [message for message in evicted if message.role != "system" and message.text.strip()]
        messages = [{"role": "user" if m.role == "tool" else m.role, "content": m.text} for m in spoken]
        if not messages:
            return after, MemoryEvent(evicted, state.lines, state.lines)
        async with self._endpoint.open() as endpoint:
            request = {"endpoint": endpoint, "messages": messages}
            listed = await self._process.ask("write", store=state.store, new=new, **request)
        known = dict(zip(state.names, state.entries, strict=True))
        entries, next_id = [], state.next_id
        for name, text in listed:
            entry = known.get(name)
            entries.append(Entry(next_id, text) if entry is None else replace(entry, text=text))
            next_id += entry is None
        written = PackageState(after.buffer, tuple(entries), next_id, after.start, after.observed)
        written = replace(written, store=new, names=tuple(name for name, _ in listed))
        return written, MemoryEvent(evicted, state.lines, written.lines)


class Mem0Memory(PackageMemory):
    """Mem0's, of version 2."""

    package = "mem0ai"


class Mem0GraphMemory(PackageMemory):
    """Mem0's with its graph, of version 1. Its search asks the model which things a query names."""

    package = "mem0ai-kuzu"


class LangMemMemory(PackageMemory):
    """LangMem's."""

    package = "langmem"


class AMemMemory(PackageMemory):
    """A-Mem's."""

    package = "a-mem-package"


class NemoriMemory(PackageMemory):
    """Nemori's, in PostgreSQL and Qdrant."""

    package = "nemori-package"
