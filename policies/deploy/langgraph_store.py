"""Memories as a LangGraph store: what a graph puts is observed, and what it searches comes back under the policy."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..lm.base import Message, identity
from ..memory.protocol import Item as Memorized
from ..sync_assistant import LoopThread
from .conversation import message_of
from .extras import needing
from .store import MemoryStore, UserMemory

with needing("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        PutOp,
        SearchItem,
        SearchOp,
    )

NO_TIME = datetime.fromtimestamp(0, UTC)
"""Memories have no times; LangGraph's items must."""
TEXTS = ("text", "content", "data")
"""Fields of a value of which one has what the user said."""
EQUAL = {"$eq": operator.eq, "$ne": operator.ne}
ORDERED = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


class LangGraphStore(BaseStore):
    """A LangGraph store on a ``MemoryStore``; a namespace is ``(*prefix, user)``.

    A put is an observation: the policy decides what becomes of it, so that what was put is not found under its key.
    ``search`` with a query returns what memory puts before it; without one, all memories. ``get`` and ``delete`` take
    the keys that ``search`` returned.
    """

    def __init__(
        self, store: MemoryStore, *, prefix: Sequence[str] = ("memories",), context_tokens: int | None = None
    ) -> None:
        """Read and write memories in ``store``, which stays open; a search returns at most ``context_tokens``."""
        self._store = store
        self._prefix = tuple(prefix)
        self._tokens = context_tokens
        self._thread: LoopThread | None = None

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Do operations in their order, and return their results."""
        self._thread = self._thread or LoopThread()
        return self._thread.run(self.abatch(ops))

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Do operations in their order, and return their results."""
        return [await self._done(op) for op in ops]

    async def _done(self, op: Any) -> Any:
        match op:
            case GetOp():
                return await self._get(op)
            case PutOp():
                return await self._put(op)
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return self._namespaces(op)
        raise TypeError(f"no such operation: {op!r}")

    async def _get(self, op: GetOp) -> Item | None:
        memory = self._memory(op.namespace)
        found = [item for item in await _everything(memory) if item.id == op.key]
        return self._item(memory.user, found[0]) if found else None

    async def _put(self, op: PutOp) -> None:
        memory = self._memory(op.namespace)
        if op.value is not None:
            await memory.observe(_messages_in(op.value))
            return
        texts = {item.text for item in await _everything(memory) if item.id == op.key}
        if texts:
            await memory.forget(texts.__contains__)

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        under = tuple(op.namespace_prefix)
        users = [user for user in self._store.users() if (*self._prefix, user)[: len(under)] == under]
        found: list[SearchItem] = []
        for user in users:
            memory = self._store.memory(user)
            if op.query is None:
                known = await memory.listing()
            else:
                context = await memory.context(op.query, tokens=self._tokens)
                known = [*sorted(context.items, key=lambda item: item.rank), *reversed(_as_items(context.messages))]
            found += [self._item(user, item) for item in known]
        wanted = [item for item in found if _meets(item.value, op.filter or {})]
        return wanted[op.offset : op.offset + op.limit]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        spaces = [(*self._prefix, user) for user in self._store.users()]
        spaces = [space for space in spaces if all(_matches(space, wanted) for wanted in op.match_conditions or ())]
        spaces = [*dict.fromkeys(space[: op.max_depth] for space in spaces)]
        return spaces[op.offset : op.offset + op.limit]

    def _memory(self, namespace: tuple[str, ...]) -> UserMemory:
        if namespace[:-1] != self._prefix:
            wanted = (*self._prefix, "USER")
            raise InvalidNamespaceError(f"memories are in {wanted}, not in {namespace}; keep all else in another store")
        return self._store.memory(namespace[-1])

    def _item(self, user: str, item: Memorized) -> SearchItem:
        return SearchItem((*self._prefix, user), item.id, {"text": item.text}, NO_TIME, NO_TIME)


async def _everything(memory: UserMemory) -> list[Memorized]:
    """Return all memories, and all messages that are none yet."""
    context = await memory.context("", tokens=None)
    return [*await memory.listing(), *_as_items(context.messages)]


def _as_items(messages: Sequence[Message]) -> list[Memorized]:
    """Return messages that are no memories yet, by keys that stay theirs."""
    return [Memorized(f"message-{identity(message.text).hex()}", message.text) for message in messages]


def _meets(value: Any, wanted: Any) -> bool:
    """Tell whether a value meets a filter, as LangGraph's own stores have it. Raises ValueError for another operator.

    ``$gt`` and its like compare numbers; a text that is none raises ValueError there too.
    """
    match wanted:
        case dict() if any(name.startswith("$") for name in wanted):
            return all(_compared(value, name, other) for name, other in wanted.items())
        case dict():
            return isinstance(value, dict) and all(_meets(value.get(name), part) for name, part in wanted.items())
        case list() | tuple():
            same = isinstance(value, list | tuple) and len(value) == len(wanted)
            return same and all(map(_meets, value, wanted))
    return bool(value == wanted)


def _compared(value: Any, name: str, other: Any) -> bool:
    if name in EQUAL:
        return bool(EQUAL[name](value, other))
    if name in ORDERED:
        return bool(ORDERED[name](float(value), float(other)))
    raise ValueError(f"filter: {name!r} is no operator; there are {', '.join((*EQUAL, *ORDERED))}")


def _messages_in(value: Mapping[str, Any]) -> list[Message]:
    """Return what a value says. Raises ValueError where it says nothing that can be observed."""
    given = value.get("messages")
    if isinstance(given, list) and given:
        messages = [message_of(each) for each in given]
        if all(message is not None for message in messages):
            return [message for message in messages if message is not None]
    texts = [text for name in TEXTS if isinstance(text := value.get(name), str) and text.strip()]
    if not texts:
        what = "a list of OpenAI's messages under `messages`, or a text under `text`, `content` or `data`"
        raise ValueError(f"a value to remember has {what}; this one has {', '.join(map(repr, value)) or 'nothing'}")
    return [Message("user", texts[0])]


def _matches(space: Sequence[str], wanted: Any) -> bool:
    path = tuple(wanted.path)
    if len(path) > len(space):
        return False
    part = space[: len(path)] if wanted.match_type == "prefix" else space[len(space) - len(path) :]
    return all(name in ("*", label) for name, label in zip(path, part, strict=True))
