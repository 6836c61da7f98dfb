"""Writes after the reply: each user's in their order, and users side by side."""

from __future__ import annotations

import asyncio
import logging

from ..lm.base import LanguageModelError, Refused
from .store import MemoryStore

GRACE_SECONDS = 5.0
"""What writes under way are given at the end; what is not written by then waits in the store."""

_log = logging.getLogger(__name__)


class Background:
    """Observes what waits in a store, in one event loop."""

    def __init__(self, store: MemoryStore) -> None:
        """Begin with nothing."""
        self._store = store
        self._wanted: set[str] = set()
        self._refused: set[str] = set()
        """Users whose last write the model has refused."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin_waiting(self) -> None:
        """Observe what waits of every user, such as after a restart."""
        for user in self._store.users_waiting():
            self.begin(user)

    def begin(self, user: str) -> None:
        """Observe what waits of a user, after what is under way."""
        self._wanted.add(user)
        if user not in self._tasks:
            self._tasks[user] = asyncio.create_task(self._work(user))

    async def done(self) -> None:
        """Wait until nothing is under way."""
        while self._tasks:
            await asyncio.wait([*self._tasks.values()])

    async def aclose(self) -> None:
        """Give writes under way a moment, and end the others, which go on waiting in the store."""
        tasks = [*self._tasks.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _work(self, user: str) -> None:
        try:
            while user in self._wanted:
                self._wanted.discard(user)
                await self._catch_up(user)
        finally:
            del self._tasks[user]

    async def _catch_up(self, user: str) -> None:
        memory = self._store.memory(user)
        try:
            if await memory.catch_up():
                self._refused.discard(user)
        except Refused as error:
            await self._after_refusal(user, error)
        except LanguageModelError as error:
            _log.warning("user %s: nothing is written for now, and messages wait for their next call: %s", user, error)
        except Exception:  # noqa: BLE001 - the log has it, and other users go on
            _log.exception("user %s: nothing is written for now", user)

    async def _after_refusal(self, user: str, error: Refused) -> None:
        """Give up what the model refuses to write, unless it refuses whatever it is asked."""
        try:
            await self._store.ask_harmless()
        except Refused as of_anything:
            kept = "user %s: nothing is written for now, and messages wait: the model refuses whatever it is asked: %s"
            _log.error(kept, user, of_anything)
            return
        except LanguageModelError as later:
            _log.warning("user %s: nothing is written for now, and messages wait for their next call: %s", user, later)
            return
        memory = self._store.memory(user)
        said = memory.skip()
        if user in self._refused:  # without what was new it is refused as well: it is the buffer
            said = [*await memory.drop_buffer(), *said]
        self._refused.add(user)
        lost = "user %s: %d messages are not remembered, for the model refuses to write them: %s"
        _log.error(lost, user, len(said), error)
        self._wanted.add(user)
