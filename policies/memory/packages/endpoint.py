"""A memory's own model and embedder as an OpenAI-compatible endpoint, for the package that remembers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from ....data.per_loop import PerLoop
from ...lm.base import Bill, Completion, Embedder, Embedding, LanguageModel, Request, RequestsWith, Wrapper


class _Noting(Wrapper):
    """A model that notes why it failed."""

    def __init__(self, model: LanguageModel, failures: list[Exception]) -> None:
        super().__init__(model)
        self.failures = failures

    async def complete(self, request: Request) -> Completion:
        try:
            return await self.model.complete(request)
        except Exception as error:
            self.failures.append(error)
            raise


class _NotingEmbedder(Embedder):
    """An embedder that notes why it failed."""

    def __init__(self, embedder: Embedder, failures: list[Exception]) -> None:
        self.embedder = embedder
        self.failures = failures

    @property
    def name(self) -> str:
        return self.embedder.name

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        try:
            return await self.embedder.embed(texts, bill=bill)
        except Exception as error:
            self.failures.append(error)
            raise


class Endpoint:
    """Serves in each event loop while it is used there, and until it is closed; forks of a memory share one."""

    def __init__(self, model: LanguageModel, embedder: Embedder) -> None:
        """Calls of ``model`` are billed as writes."""
        self._serving = PerLoop(lambda: _Serving(model, embedder))

    def open(self) -> AbstractAsyncContextManager[dict[str, Any]]:
        """Serve inside the block; give the URL and what is served. At its end a failure of the model is raised.

        A package may go on when a call has failed; what it then has is not what it was to write.
        """
        return self._serving.here().open()

    async def aclose(self) -> None:
        """Stop serving in this event loop, once nobody uses it; the next use serves again."""
        await self._serving.here().aclose()


class _Serving:
    """An endpoint in one event loop."""

    def __init__(self, model: LanguageModel, embedder: Embedder) -> None:
        self._embedder = embedder
        self._failures: list[Exception] = []
        self._writes = RequestsWith(_Noting(model, self._failures), role="write")
        self._opening = asyncio.Lock()
        self._server: AsyncExitStack | None = None
        self._about: dict[str, Any] = {}
        self._users = 0
        self._ended = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[dict[str, Any]]:
        self._users += 1
        known = len(self._failures)
        try:
            async with self._opening:
                self._ended = False
                if self._server is None:
                    await self._serve()
            try:
                yield self._about
            except Exception:
                self._raise_failure(known)
                raise
            self._raise_failure(known)
        finally:
            self._users -= 1
            if not self._users:
                self._failures.clear()
                if self._ended:
                    await self._close()

    async def aclose(self) -> None:
        self._ended = True
        if not self._users:
            await self._close()

    async def _serve(self) -> None:
        from ...lm.serving import Served, listening  # a quarter of the time that a worker takes to start

        if not self._about:
            width = (await self._embedder.embed(["width"])).vectors.shape[1]
            self._about = {"model": self._writes.name, "embedder": self._embedder.name, "width": width}
        served = Served(self._writes, _NotingEmbedder(self._embedder, self._failures))
        stack = AsyncExitStack()
        self._about["url"] = await stack.enter_async_context(listening(served, host="127.0.0.1", port=0))
        self._server = stack

    async def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.aclose()

    def _raise_failure(self, known: int) -> None:
        if len(self._failures) > known:
            raise self._failures[known]
