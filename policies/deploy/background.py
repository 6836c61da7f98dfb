"""Writes after the reply: each user's in their order, and users side by side."""

from __future__ import annotations

import asyncio
import logging

from ..lm.base import LanguageModelError
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
        try:
            await self._store.memory(user).catch_up()
        except LanguageModelError as error:
            _log.warning("user %s: nothing is written for now, and messages wait for their next call: %s", user, error)
        except Exception:  # noqa: BLE001 - the log has it, and other users go on
            _log.exception("user %s: nothing is written for now", user)
