"""A language model whose replies are kept in front of any budget: what is known costs nothing and counts as nothing."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from .base import Completion, LanguageModel, Request, Wrapper, to_json
from .cache import Cache, cache_key
from .ledger import Ledger


class Remembered(Wrapper):
    """A language model that never asks the same twice.

    A call goes on when nobody waits for it any more, and its reply is kept, for it is paid for: see ``settle``.
    """

    def __init__(self, model: LanguageModel, cache: Cache, *, where: str = "") -> None:
        """Keep the replies of ``model`` in ``cache``; ``where`` tells apart models of the same name."""
        super().__init__(model)
        self.ledger = Ledger()
        """What came from the cache."""
        self._cache = cache
        self._where = f"{where} {model.name}"
        self._under_way: dict[str, asyncio.Task[Completion]] = {}

    async def complete(self, request: Request) -> Completion:
        """Return the reply that is known, or ask the inner model."""
        settings = to_json([request.form and asdict(request.form), request.temperature, request.max_tokens])
        body = [
            settings,
            *(to_json(tool.as_json()) for tool in request.tools),
            *(message.encoded for message in request.messages),
        ]
        key = cache_key(self._where, request.repeat, body)
        known = self._cache.get(key)
        if known is not None:
            self.ledger.add(request.role, known.usage)
            return known
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._ask(key, request))
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait for the calls under way, and keep their replies; those that fail are left out."""
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def abandon(self) -> None:
        """End the calls under way."""
        for task in self._under_way.values():
            task.cancel()
        await self.settle()

    async def _ask(self, key: str, request: Request) -> Completion:
        completion = await self.model.complete(request)
        self._cache.put(key, completion)
        return completion

    def _forget(self, key: str, done: asyncio.Task[Completion]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # else asyncio complains of an error that no caller waits for
