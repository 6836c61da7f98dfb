"""What runs under a memory policy during one episode: it watches messages go by and gives context back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .index import VectorIndex
from .lm.base import CHARACTERS_PER_TOKEN, Embedder, LanguageModel, Message, Request
from .policy import MemoryPolicy
from .prompts import render
from .replies import ReplyError, as_text, read_json_object

MERGE_NEIGHBOURS = 5
"""Known facts shown to the merge prompt for each new fact, as in AMemGym's AWE."""


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


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One write."""

    evicted: tuple[Message, ...]
    before: tuple[str, ...]
    """Memories before the write, one line each, oldest first."""
    after: tuple[str, ...]
    """Memories after it."""
    raw: tuple[str, ...] = ()
    """The model's replies, as they came."""
    error: str | None = None
    """Why the model's reply was of no use, so that memory stayed as it was; None when all went well."""


class Memory:
    """A memory under one policy; eviction and updates are AMemGym's (section 3 of its agents).

    ``observe`` appends messages to the buffer. Once it holds ``update_every + buffer_size`` of them, the first
    ``update_every`` are evicted, once per call, and written.
    """

    def __init__(self, policy: MemoryPolicy, model: LanguageModel, embedder: Embedder) -> None:
        """Start empty."""
        self.policy = policy
        self._model = model
        self._state = MemoryState()
        self._index = VectorIndex(embedder)

    def snapshot(self) -> MemoryState:
        """Return the present state."""
        return self._state

    def restore(self, state: MemoryState) -> None:
        """Go back to a state."""
        self._state = state

    def fork(self, *, memories: bool = True) -> Memory:
        """Return a memory in the same state that goes its own way from here; without ``memories`` the buffer alone."""
        other = Memory.__new__(Memory)
        other.policy, other._model, other._index = self.policy, self._model, self._index
        other._state = self._state if memories else MemoryState(buffer=self._state.buffer)
        return other

    async def observe(self, messages: Sequence[Message]) -> list[MemoryEvent]:
        """Take in messages that were exchanged; return the writes that this set off, none or one."""
        policy, buffer = self.policy, (*self._state.buffer, *messages)
        if policy.buffer_size is None or policy.update_every is None:
            self._state = replace(self._state, buffer=buffer)
            return []
        if len(buffer) < policy.update_every + policy.buffer_size:
            self._state = replace(self._state, buffer=buffer)
            return []
        evicted, kept = buffer[: policy.update_every], buffer[policy.update_every :]
        self._state = replace(self._state, buffer=kept)
        return [await self._write(evicted)] if policy.write.mode != "none" else []

    async def context(self, query: str) -> list[Message]:
        """Return the messages to put before ``query``: memories that come back, then the buffer."""
        if self.policy.prompts.reply is None:
            return list(self._state.buffer)
        system = _filled(self.policy.prompts.reply, memories=await self.listing(query))
        return [Message("system", system), *self._state.buffer]

    async def listing(self, query: str) -> str:
        """Return the memories that come back for a query as a list in a prompt."""
        return "\n".join(f"- {memory}" for memory in await self.memories(query))

    async def memories(self, query: str) -> list[str]:
        """Return the memories that come back for a query."""
        return [] if self.policy.write.mode == "none" else [entry.line for entry in await self._recall(query)]

    async def _recall(self, query: str) -> list[Entry]:
        policy, entries = self.policy, self._state.entries
        if policy.store == "context" or policy.top_k is None:
            ranked = list(reversed(entries))
        else:
            ranked = [entries[i] for i in await self._index.search(query, [e.line for e in entries], policy.top_k)]
        chosen = _within(ranked, policy.read.budget_tokens)
        if policy.read.order == "relevance":
            return chosen
        place = {entry.id: i for i, entry in enumerate(entries)}
        return sorted(chosen, key=lambda entry: place[entry.id])

    async def _write(self, evicted: tuple[Message, ...]) -> MemoryEvent:
        before = self._lines()
        heard = tuple(m for m in evicted if self.policy.write.roles == "both" or m.role == "user")
        raw: list[str] = []
        error = None
        try:
            if heard:
                await self._absorb(heard, raw)
        except ReplyError as problem:
            error = str(problem)
        return MemoryEvent(evicted, before, self._lines(), tuple(raw), error)

    def _lines(self) -> tuple[str, ...]:
        return tuple(entry.line for entry in self._state.entries)

    async def _absorb(self, heard: tuple[Message, ...], raw: list[str]) -> None:
        if self.policy.write.mode == "verbatim":
            self._append([f"{m.role}: {m.content}" for m in heard])
        elif self.policy.write.mode == "profile":
            self._state = _union(self._state, await self._ask_profile(heard, raw))
        else:
            facts = await self._ask_facts(heard, raw)
            if facts:
                await self._merge(facts, raw)

    def _append(self, texts: Sequence[str]) -> None:
        state = self._state
        new = tuple(Entry(state.next_id + i, text) for i, text in enumerate(texts))
        self._state = replace(state, entries=state.entries + new, next_id=state.next_id + len(new))

    async def _ask_profile(self, heard: tuple[Message, ...], raw: list[str]) -> dict[str, str]:
        by_first_write = sorted(self._state.entries, key=lambda entry: entry.id)
        memories = {entry.label: entry.text for entry in by_first_write}
        prompt = self._write_prompt(memories, heard)
        reply = await self._ask(prompt, raw)
        return {as_text(label): as_text(value) for label, value in reply.items() if value is not None}

    async def _ask_facts(self, heard: tuple[Message, ...], raw: list[str]) -> list[str]:
        memories = {str(entry.id): entry.text for entry in self._state.entries}
        prompt = self._write_prompt(memories, heard)
        facts = (await self._ask(prompt, raw)).get("facts")
        if not isinstance(facts, list):
            raise ReplyError('the reply has no list "facts"')
        return [as_text(fact) for fact in facts if fact]

    def _write_prompt(self, memories: Mapping[str, str], heard: tuple[Message, ...]) -> str:
        prompts = self.policy.prompts
        types = {} if prompts.info_types is None else {"info_types": prompts.info_types}
        return _filled(prompts.write, memories=_indented(memories), conversation=_as_json(heard), **types)

    async def _merge(self, facts: list[str], raw: list[str]) -> None:
        known = await self._neighbours(facts)
        if not known:
            self._append(facts)
            return
        memories = {str(entry.id): entry.text for entry in known}
        prompt = _filled(self.policy.prompts.merge, memories=_indented(memories), facts=_indented(facts))
        self._state = _apply_merge(self._state, await self._ask(prompt, raw), {entry.id for entry in known})

    async def _neighbours(self, facts: list[str]) -> list[Entry]:
        entries = self._state.entries
        lines = [entry.line for entry in entries]
        near = {i for fact in facts for i in await self._index.search(fact, lines, MERGE_NEIGHBOURS)}
        return [entries[i] for i in sorted(near)]

    async def _ask(self, prompt: str, raw: list[str]) -> dict[str, object]:
        completion = await self._model.complete(Request((Message("user", prompt),), role="write", json_mode=True))
        raw.append(completion.text)
        return read_json_object(completion.text)


def _filled(template: str | None, *, memories: str, **slots: str) -> str:
    return render(template or "", memories=memories, current_memories=memories, **slots)


def _within(ranked: Sequence[Entry], budget_tokens: int | None) -> list[Entry]:
    """Keep the first entries that fit into the budget."""
    if budget_tokens is None:
        return list(ranked)
    sizes = np.cumsum([len(entry.line) / CHARACTERS_PER_TOKEN for entry in ranked])
    return list(ranked[: int(np.searchsorted(sizes, budget_tokens, side="right"))])


def _union(state: MemoryState, new: dict[str, str]) -> MemoryState:
    """Overwrite equal labels and add new ones; what was written last comes last, in the order of first writes."""
    ids = {entry.label: entry.id for entry in state.entries}
    kept = [entry for entry in state.entries if entry.label not in new]
    added = [label for label in new if label not in ids]
    ids |= {label: state.next_id + i for i, label in enumerate(added)}
    written = sorted((Entry(ids[label], text, label) for label, text in new.items()), key=lambda entry: entry.id)
    return replace(state, entries=(*kept, *written), next_id=state.next_id + len(added))


def _apply_merge(state: MemoryState, reply: dict[str, object], known: set[int]) -> MemoryState:
    """Add, update and delete facts as the reply says. Raises ReplyError, changing nothing, when it makes no sense."""
    steps = reply.get("memory")
    if not isinstance(steps, list):
        raise ReplyError('the reply has no list "memory"')
    entries = {entry.id: entry for entry in state.entries}
    next_id = state.next_id
    for step in steps:
        if not isinstance(step, dict):
            raise ReplyError('an item of "memory" is not an object')
        event, text = str(step.get("event", "")).upper(), as_text(step.get("text") or "")
        if event == "NONE":
            continue
        if event == "ADD" and text:
            entries[next_id] = Entry(next_id, text)
            next_id += 1
        elif event == "DELETE" or (event == "UPDATE" and text):
            identity = _known_id(step.get("id"), known)
            entries.pop(identity, None)
            if event == "UPDATE":
                entries[identity] = Entry(identity, text)
        else:
            raise ReplyError(f'an item of "memory" has event {event!r} without what it needs')
    return replace(state, entries=tuple(entries.values()), next_id=next_id)


def _known_id(given: object, known: set[int]) -> int:
    for identity in known:
        if given == str(identity) or (type(given) is int and given == identity):
            return identity
    raise ReplyError(f"the reply names memory {repr(given)[:60]}, which it was not shown")


def _as_json(messages: Sequence[Message]) -> str:
    return _indented([{"role": m.role, "content": m.content} for m in messages])


def _indented(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
