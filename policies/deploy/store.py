"""Memories of many users in one SQLite file, each apart from all others."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from ...data.errors import MnemotuneError
from ...data.per_loop import PerLoop
from ..lm.base import Embedder, LanguageModel, LanguageModelError, Message, Refused, Request, identity
from ..lm.client import Client, as_model
from ..memory.backends import open_memory
from ..memory.budget import within
from ..memory.protocol import Context, Item, Memory, MemoryEvent, MemoryFault
from ..memory.saving import dump_memory, restore_memory, savable
from ..memory.stores import MemoryState
from ..memory.writers import FACTS
from ..policy import MemoryPolicy
from .rows import Rows, StoreError, Waiting
from .stating import forget_fact
from .vectors import KeptVectors
from .waiting import as_text, messages_in, rounds, without

MOST_OPEN = 256
"""Users whose memories stay in the process, the last used ones; others are read again from the file."""
STALE = -1
"""No version of a user's memory: what has it is read again."""
HARMLESS = Request((Message("user", 'Reply with {"facts": []}, a JSON object.'),), role="write", form=FACTS)

__all__ = ["MemoryStore", "StoreError", "UserMemory"]

_log = logging.getLogger(__name__)


class UserIdError(MnemotuneError, ValueError):
    """Say that a user's id cannot be one."""


class MemoryStore:
    """Memories by user, in a SQLite file on a local disk.

    Threads and event loops may share a store, and processes a file. What has been observed is in the file when
    ``observe`` returns; a process that is killed loses at most the write that was under way.
    """

    def __init__(
        self,
        path: Path | str,
        policy: MemoryPolicy,
        model: LanguageModel | Client,
        embedder: Embedder,
        *,
        model_name: str | None = None,
    ) -> None:
        """Open or create the file; all memories are under ``policy``, as ``open_memory`` has it.

        Model and embedder belong to the caller. Raises StoreError when the file is damaged, no store, or not writable,
        and SavedMemoryError when memories of the policy's backend cannot be saved.
        """
        self.policy = policy
        self._key = policy.key
        self._model = as_model(model, model_name)
        self._embedder = embedder
        savable(open_memory(policy, self._model, embedder))
        self._rows = Rows(path)
        self._refused: dict[str, object] = {}
        """By user, which messages the model has refused last, where it has written none since."""
        self._per_loop = PerLoop(OrderedDict[tuple[str, str], _Open])

    def memory(self, user: str) -> UserMemory:
        """Return a user's memory, an empty one for a new user. Raises UserIdError when the id is empty."""
        if not user.strip() or not _is_unicode(user):
            raise UserIdError("the user's id is empty, or no text that can be stored")
        return UserMemory(self, user)

    def users(self) -> list[str]:
        """Return the ids of all users of whom something is kept, sorted."""
        return self._rows.users()

    def users_waiting(self) -> list[str]:
        """Return the ids of users of whom messages wait to be observed, sorted."""
        return self._rows.users_waiting()

    def delete(self, user: str) -> bool:
        """Remove all that is kept of a user, writes under way included; tell whether there was anything."""
        there = self._rows.delete(user)
        self._rows.scrub()
        return there

    async def ask_harmless(self) -> None:
        """Ask the model for what nothing can be held against. Raises LanguageModelError where it does not answer."""
        try:
            await self._model.complete(HARMLESS)
        except Refused as error:
            raise LanguageModelError(f"the model refuses whatever it is asked: {error}") from error

    async def forget(self, user: str, fact: str) -> list[str]:
        """Remove what states a fact from a user's memory, the messages that wait included; return those texts.

        ``stating`` says what states a fact. Raises ValueError for an empty fact.
        """
        return await self.memory(user).forget_fact(fact)

    def close(self) -> None:
        """Release the file. Closing twice does no harm."""
        self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _opened(self, user: str, policy: MemoryPolicy, key: str) -> _Open:
        """Return a user's memory in this event loop, as it is in the file."""
        here = self._per_loop.here()
        place = user, key
        opened = here.get(place)
        if opened is None or opened.version != self._rows.version(user):
            saved = self._rows.saved(user)
            vectors = KeptVectors(self._embedder, self._rows, user)
            memory = open_memory(policy, self._model, vectors)
            if saved is not None and saved.memory:
                await restore_memory(memory, saved.memory, where=f"{self._rows.path}, user {user}")
            fresh = _Open(memory, saved and saved.version, vectors)
            opened = here.setdefault(place, fresh)
            opened.memory, opened.version, opened.vectors = fresh.memory, fresh.version, fresh.vectors
        here.move_to_end(place)
        if len(here) > MOST_OPEN:
            unused = next((name for name, each in here.items() if not each.changing.locked()), place)
            del here[unused]
        return opened

    def _read_again(self, user: str, key: str) -> None:
        """Have the next call read a user's memory from the file."""
        if (opened := self._per_loop.here().get((user, key))) is not None:
            opened.version = STALE


@dataclass(slots=True)
class _Open:
    """A user's memory as it is in the file, in one event loop."""

    memory: Memory
    version: int | None
    """None: there is nothing in the file."""
    vectors: KeptVectors
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


class UserMemory:
    """One user's memory in a store; it is a ``Memory``, and what changes in it is in the file.

    Any number of them may be open of the same user. Messages that wait are shown verbatim, after all others.
    """

    def __init__(self, store: MemoryStore, user: str) -> None:
        """Be the memory of ``user``; nothing is read yet."""
        self.user = user
        self.policy = store.policy
        """The policy that it runs under."""
        self.store = store
        """The store that it is in."""
        self._key = store._key
        self._rows = store._rows

    async def observe(self, messages: Sequence[Message]) -> list[MemoryEvent]:
        """Take in messages that were exchanged, after those that wait; return the writes that this set off.

        Of several rounds, each may set off a write, as if each had come by itself.

        Where somebody else has changed the memory in the meantime, the messages are observed again after that; where
        the user was deleted, they are gone too.

        Raises LanguageModelError, and Refused where the model takes other requests: the messages are not observed then.
        Where it refuses the next ones too, the buffer is at fault: it is dropped, and the log says so.
        """
        async with (await self._opened()).changing:
            if (await self._opened()).version is None:  # so that a user who is deleted meanwhile is told from a new one
                self._rows.begin(self.user)
            events = await self._catch_up()
            while (await self._opened()).version is not None:
                if (new := await self._written(messages, waiting=None)) is not None:
                    return [*events, *new]
            return events

    def queue(self, messages: Sequence[Message]) -> None:
        """Put messages into the file, to be observed at the next ``catch_up`` or ``observe``. No model is asked."""
        self._rows.add_waiting(self.user, as_text(messages))

    async def catch_up(self) -> list[MemoryEvent]:
        """Observe all messages that wait, in their order; return the writes.

        Raises LanguageModelError; what was not observed then goes on waiting. Messages that the model refuses to write,
        and a buffer as in ``observe``, are dropped instead, and the log says so.
        """
        async with (await self._opened()).changing:
            return await self._catch_up()

    def take_back(self) -> list[Message]:
        """Take the newest messages that wait out of the file, those of one ``queue``; none where nothing waits."""
        waiting = reversed(self._rows.waiting(self.user))
        return next((messages_in(row) for row in waiting if self._rows.drop_waiting(self.user, row)), [])

    async def context(self, query: str, *, tokens: int | None) -> Context:
        """Return the memories that come back for ``query``, the buffer, and what waits, within ``tokens``."""
        async with self._open() as opened:
            memory, version, vectors = opened.memory, opened.version, opened.vectors
            waiting = [message for row in self._rows.waiting(self.user) for message in messages_in(row)]
            context = await memory.context(query, tokens=tokens)
            if vectors.worth_keeping:
                vectors.keep([item.text for item in await memory.listing()], version=version)
        if waiting:
            context = replace(context, messages=(*context.messages, *waiting))
            context = within(context, tokens, buffer_share=self.policy.buffer_share / 100)
        return context

    async def listing(self) -> list[Item]:
        """Return all memories, oldest write first."""
        return await (await self._opened()).memory.listing()

    async def snapshot(self) -> Any:
        """Return everything that is remembered, what waits left out."""
        return await (await self._opened()).memory.snapshot()

    async def restore(self, state: Any) -> None:
        """Go back to a state; what waits is dropped."""
        await self._change(lambda memory: memory.restore(state), lambda _: True)

    async def dump(self) -> Any:
        """Return everything that is remembered as plain JSON values, what waits left out."""
        async with self._open() as opened:
            return await savable(opened.memory).dump()

    async def load(self, values: Any) -> None:
        """Go back to what ``dump`` has returned; what waits is dropped. Raises ValueError, naming the field."""
        await self._change(lambda memory: savable(memory).load(values), lambda _: True)

    async def fork(self, *, memories: bool = True) -> Memory:
        """Return a memory in the same state that goes its own way, outside of the store."""
        return await (await self._opened()).memory.fork(memories=memories)

    async def adopt(self, policy: MemoryPolicy) -> None:
        """Go on under a rewritten policy; what is remembered stays."""
        self.policy, self._key = policy, policy.key

    async def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each memory and message of whose text ``what`` is true, waiting ones included; return how many.

        Nothing of them is left in the store's files.
        """
        count = await self._change(lambda memory: memory.forget(what), what)
        opened = await self._opened()
        texts = [item.text for item in await opened.memory.listing()]
        opened.vectors.keep(texts, version=opened.version, anew=True)
        self._rows.drop_vectors(self.user, {*map(identity, texts)})
        self._rows.scrub()
        return count

    async def forget_fact(self, fact: str) -> list[str]:
        """Remove what states a fact, as ``MemoryStore.forget`` does; return those texts."""
        return await forget_fact(self, fact)

    def delete(self) -> bool:
        """Remove all that is kept of the user, as ``MemoryStore.delete`` does."""
        return self.store.delete(self.user)

    async def aclose(self) -> None:
        """There is nothing to close: the file is the store's."""

    async def _opened(self) -> _Open:
        return await self.store._opened(self.user, self.policy, self._key)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[_Open]:
        """Give the memory as it is in the file. Where it fails, the next call reads it again."""
        opened = await self._opened()
        try:
            yield opened
        except MemoryFault:
            self.store._read_again(self.user, self._key)
            raise

    async def _catch_up(self) -> list[MemoryEvent]:
        events: list[MemoryEvent] = []
        while waiting := self._rows.waiting(self.user):
            row = waiting[0]
            messages = messages_in(row)
            try:
                events += await self._written(messages, waiting=row) or []
            except Refused as error:
                if self._rows.drop_waiting(self.user, row):
                    self._tell_lost(messages, error)
        return events

    async def _written(self, messages: Sequence[Message], *, waiting: Waiting | None) -> list[MemoryEvent] | None:
        """Attempt it; where other messages were refused just before, once more without the buffer. Raises Refused."""
        try:
            events = await self._attempt(messages, waiting=waiting)
        except Refused as error:
            await self.store.ask_harmless()
            which = object() if waiting is None else waiting.id
            if self.store._refused.setdefault(self.user, which) == which:
                raise
            if dropped := await self._drop_buffer():
                self._tell_lost(dropped, error)
            events = await self._attempt(messages, waiting=waiting)
        if events:
            self.store._refused.pop(self.user, None)
        return events

    def _tell_lost(self, messages: Sequence[Message], error: Refused) -> None:
        lost = "user %s: %d messages are not remembered, for the model refuses to write them: %s"
        _log.error(lost, self.user, len(messages), error)

    async def _drop_buffer(self) -> Sequence[Message]:
        """Drop the messages of the buffer, and return them; none where the memory keeps its buffer in its own way."""
        opened = await self._opened()
        began = opened.version
        trial = await opened.memory.fork()
        state = await trial.snapshot()
        if not isinstance(state, MemoryState) or not state.buffer:
            return ()
        await trial.restore(replace(state, buffer=()))
        return state.buffer if await self._saved(opened, trial, began) else ()

    async def _attempt(self, messages: Sequence[Message], *, waiting: Waiting | None) -> list[MemoryEvent] | None:
        """Observe messages, and save what came of it; None where somebody else has changed the memory meanwhile."""
        async with self._open() as opened:
            began = opened.version
            trial = await opened.memory.fork()
            events = [event for each in rounds(messages) for event in await trial.observe(each)]
            return events if await self._saved(opened, trial, began, observed=waiting) else None

    async def _change(self, change: Callable[[Memory], Any], dropped: Callable[[str], bool]) -> int:
        """Change the memory, and drop waiting messages by their texts; return how many messages and memories went."""
        async with (await self._opened()).changing:
            while (count := await self._change_once(change, dropped)) is None:
                pass
            return count

    async def _change_once(self, change: Callable[[Memory], Any], dropped: Callable[[str], bool]) -> int | None:
        async with self._open() as opened:
            began, waiting = opened.version, self._rows.waiting(self.user)
            left = {row: without(messages_in(row), dropped) for row in waiting}
            changed = {row.id: as_text(kept) if kept else None for row, kept in left.items()}
            count = sum(len(messages_in(row)) - len(kept) for row, kept in left.items())
            trial = await opened.memory.fork()
            gone = await change(trial)
            count += gone or 0
            none_there = began is None and gone == 0 == count
            return count if none_there or await self._saved(opened, trial, began, rewritten=changed) else None

    async def _saved(self, opened: _Open, trial: Memory, began: int | None, **waiting: Any) -> bool:
        """Put a changed memory in the place of the one that it was made from; tell whether that was still there."""
        version = self._rows.save(self.user, await dump_memory(trial), instead_of=began, **waiting)
        if version is not None:
            opened.memory, opened.version = trial, version
        return version is not None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
