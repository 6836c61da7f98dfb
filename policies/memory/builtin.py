"""The memory that is built in: a buffer of messages, memories written from what leaves it, and their store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

from ...data.per_loop import PerLoop
from ..lm.base import Embedder, LanguageModel, Message
from ..policy import MemoryPolicy
from .budget import units_of, within
from .masking import masked
from .protocol import Context, Item, MemoryEvent
from .saving import state_as_json, state_of
from .stores import Entry, MemoryState, Ranking, VectorIndex
from .writers import Writer, write


class BuiltinMemory:
    """A memory under one policy; eviction and updates are AMemGym's (section 3 of its agents).

    ``observe`` appends messages to the buffer. Once it holds ``update_every + buffer_size`` of them, the first
    ``update_every`` are evicted, once per call, and written. While a write is under way, the buffer still holds them.
    The task's first ``keep_first`` messages never enter the buffer: they stay in view.
    """

    def __init__(self, policy: MemoryPolicy, model: LanguageModel, embedder: Embedder) -> None:
        """Start empty."""
        self.policy = policy
        """The policy that it runs under."""
        self._model = model
        self._index = VectorIndex(embedder)
        self._state = MemoryState()
        self._shown: tuple[tuple[object, ...], Context] | None = None
        """What was shown last, and what it came from: questions that follow each other mostly bring back the same."""
        self._changing = PerLoop(asyncio.Lock)
        self._times_forgotten = 0

    async def observe(self, messages: Sequence[Message]) -> list[MemoryEvent]:
        """Take in messages that were exchanged; return the writes that this set off, none or one."""
        async with self._changing.here():
            before = self._state
            self._state = _taken_in(before, messages, self.policy.keep_first)
            try:
                return await self._evict()
            except BaseException:
                self._state = before
                raise

    async def context(self, query: str, *, tokens: int | None) -> Context:
        """Return the memories that come back for ``query`` and the buffer, as far as they fit into ``tokens``."""
        policy, state, best = await self._brought_back(query)
        source, last = (state, policy, tuple(best), tokens), self._shown
        if last is not None and last[0] == source:
            return last[1]
        everything = self._everything(policy, state, best)
        shown = within(everything, tokens, buffer_share=policy.buffer_share / 100)
        if state is self._state:  # a state that is over is not shown again
            self._shown = source, shown
        return shown

    async def _brought_back(self, query: str) -> tuple[MemoryPolicy, MemoryState, Sequence[int]]:
        """Return the state, and the places of what comes back for a query; nothing that was forgotten meanwhile."""
        while True:
            policy, state, before = self.policy, self._state, self._times_forgotten
            best: Sequence[int] = ()
            if policy.prompts.reply is not None:
                best = range(len(state.entries))[::-1]
                if policy.top_k is not None:
                    best = await self._found(query, state, policy.top_k)
            if before == self._times_forgotten:
                return policy, state, best

    def _everything(self, policy: MemoryPolicy, state: MemoryState, best: Sequence[int]) -> Context:
        """Return the buffer and the memories at some places, however much that is."""
        messages = (*state.start, *masked(state.buffer, policy.mask))
        items = {i: self._item(state.entries[i], rank) for rank, i in enumerate(best)}
        order = sorted(items) if policy.read.order == "time" else items
        shown = tuple(items[i] for i in order)
        return Context(shown, messages, policy.prompts.reply, pinned=len(state.start))

    async def listing(self) -> list[Item]:
        """Return all memories, oldest write first."""
        newest = len(self._state.entries) - 1
        return [self._item(entry, newest - i) for i, entry in enumerate(self._state.entries)]

    async def snapshot(self) -> MemoryState:
        """Return the present state."""
        return self._state

    async def restore(self, state: MemoryState) -> None:
        """Go back to a state."""
        async with self._changing.here():
            self._state = state

    async def dump(self) -> Any:
        """Return the present state as plain JSON values."""
        return state_as_json(self._state)

    async def load(self, values: Any) -> None:
        """Go back to a state that ``dump`` has returned. Raises ValueError, naming the field at fault."""
        await self.restore(state_of(values))

    async def fork(self, *, memories: bool = True) -> Self:
        """Return a memory in the same state that goes its own way from here; without ``memories`` the buffer alone."""
        other = copy(self)
        other._changing = PerLoop(asyncio.Lock)
        if not memories:
            other._state = self._without_memories()
        return other

    async def adopt(self, policy: MemoryPolicy) -> None:
        """Go on under a rewritten policy; what is remembered stays."""
        async with self._changing.here():
            self.policy = policy

    async def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each memory, and each message of the buffer, of whose text ``what`` is true; return how many."""
        async with self._changing.here():
            await self._forget_elsewhere(what)
            state = self._state
            gone = {entry.line for entry in state.entries if any(map(what, entry.tellings))}
            kept = [entry for entry in state.entries if entry.line not in gone]
            ids = frozenset(entry.id for entry in kept)
            entries = tuple(entry.without(what, ids) for entry in kept)
            start, buffer = _without(state.start, what), _without(state.buffer, what)
            self._index.forget(lambda line: line in gone or what(line))
            self._shown = None
            self._times_forgotten += 1
            self._state = replace(state, start=start, buffer=buffer, entries=entries, _known=((), ()))
            return _size(state) - _size(self._state)

    async def _forget_elsewhere(self, what: Callable[[str], bool]) -> None:
        """Remove what is kept besides the state; there is nothing."""

    async def aclose(self) -> None:
        """There is nothing to close."""

    @property
    def _writer(self) -> Writer | None:
        """How memories are written; None is as the policy's mode says."""
        return None

    async def _found(self, query: str, state: MemoryState, top_k: int) -> list[int]:
        """Return the places of the memories that come back for a query, the best first."""
        return await self._most_similar(query, state, range(len(state.entries)), top_k)

    async def _most_similar(self, query: str, state: MemoryState, places: Sequence[int], top_k: int) -> list[int]:
        """Return those of some places, in the order of the state, at which the most similar memories are."""
        ranking, lines = Ranking(self.policy.read.diversity / 100, self.policy.read.recency / 100), state.lines
        (best,) = await self._index.search([query], [lines[place] for place in places], top_k, ranking)
        return [places[i] for i in best]

    def _item(self, entry: Entry, rank: int) -> Item:
        """Return a memory as it is shown."""
        return Item(str(entry.id), entry.line, rank)

    async def _evict(self) -> list[MemoryEvent]:
        policy, state = self.policy, self._state
        if policy.buffer_size is None or policy.update_every is None:
            return []
        full = len(state.buffer) >= policy.update_every + policy.buffer_size
        count = _whole_units(state.buffer, policy.update_every) if full else 0
        if not count:
            return []
        evicted, after = state.buffer[:count], replace(state, buffer=state.buffer[count:])
        if policy.write.mode == "none":
            self._state = after
            return []
        self._state, event = await self._written(after, evicted)
        self._index.shrink(self._state.lines)
        return [event]

    def _without_memories(self) -> MemoryState:
        return replace(self._state, entries=(), next_id=0)

    async def _written(self, after: MemoryState, evicted: tuple[Message, ...]) -> tuple[MemoryState, MemoryEvent]:
        """Return the state in which what left the buffer is written."""
        return await write(self.policy, after, evicted, model=self._model, index=self._index, writer=self._writer)


def _taken_in(state: MemoryState, messages: Sequence[Message], keep_first: int) -> MemoryState:
    """Return the state with new messages: the first ones in the start, with the results of its last tool call."""
    start, buffer = [*state.start], [*state.buffer]
    for place, message in enumerate(messages, state.observed):
        late = message.role == "tool" and not buffer and bool(start) and bool(units_of(start)[-1][0].tool_calls)
        first = place < keep_first and not buffer  # a start that was adopted late takes nothing from behind the buffer
        (start if first or (keep_first and late) else buffer).append(message)
    observed = state.observed + len(messages)
    return replace(state, start=tuple(start), buffer=tuple(buffer), observed=observed)


def _without(messages: Sequence[Message], what: Callable[[str], bool]) -> tuple[Message, ...]:
    """Return the messages without each unit of which ``what`` is true."""
    units = [unit for unit in units_of(messages) if not any(what(message.text) for message in unit)]
    return tuple(message for unit in units for message in unit)


def _size(state: MemoryState) -> int:
    hidden = sum(len(entry.hidden) for entry in state.entries)
    return len(state.entries) + hidden + len(state.start) + len(state.buffer)


def _whole_units(buffer: Sequence[Message], least: int) -> int:
    """Return how many messages leave the buffer: ``least``, or more or fewer so that no tool call loses its results."""
    count = 0
    for unit in units_of(buffer):
        waiting = len(unit[0].tool_calls) > len(unit) - 1 and count + len(unit) == len(buffer)
        if count >= least or waiting:
            break
        count += len(unit)
    return count
