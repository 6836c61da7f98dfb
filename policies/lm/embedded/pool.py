"""The embedded model and the lexical embedder on several cores."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import TypeVar

from threadpoolctl import threadpool_limits

from ..base import Bill, Completion, Embedder, Embedding, LanguageModel, LanguageModelError, Refused, Request
from ..lexical import DIMENSIONS, LexicalEmbedder
from . import EmbeddedModel

T = TypeVar("T")
R = TypeVar("R")


class Pool:
    """Processes that take calls one by one, so that calls side by side use as many cores."""

    def __init__(self, *, workers: int, most_seconds: float = math.inf) -> None:
        """Start at most ``workers`` processes, the first when there is something to do.

        A call may work ``most_seconds``, where the system has timers (Windows has none); its wait does not count.
        """
        self._workers = workers
        self._most_seconds = most_seconds
        self._executor = self._start()

    async def run(self, work: Callable[[T], R], what: T) -> R:
        """Return what ``work`` makes of ``what``; a call that is cancelled before its turn is never made.

        Raises Refused when it takes too long, and LanguageModelError when a process was killed; the next call finds
        new ones.
        """
        executor = self._executor
        try:
            with interrupts_held():
                future = executor.submit(_within, self._most_seconds, work, what)
            return await asyncio.wrap_future(future)
        except BrokenProcessPool as error:
            if executor is self._executor:
                self._executor = self._start()
            raise LanguageModelError("a process of the embedded model was killed, perhaps for memory") from error

    async def aclose(self) -> None:
        """End the processes, each after the call that it is at."""
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._workers, mp_context=context_with(__name__), initializer=begin_child, initargs=(dict(os.environ),)
        )


class PooledModel(LanguageModel):
    """The embedded model in the processes of a pool; the pool's owner closes it."""

    name = EmbeddedModel.name

    def __init__(self, pool: Pool) -> None:
        """Leave the work to ``pool``."""
        self._pool = pool

    async def complete(self, request: Request) -> Completion:
        """Return what the embedded model says. Raises LanguageModelError when its process was killed."""
        return await self._pool.run(_complete, Request(request.messages, request.role))


class PooledEmbedder(Embedder):
    """The lexical embedder in the processes of a pool."""

    name = LexicalEmbedder.name

    def __init__(self, pool: Pool, *, dimensions: int = DIMENSIONS) -> None:
        """Leave the work to ``pool``."""
        self._pool, self._dimensions = pool, dimensions

    def of_width(self, dimensions: int) -> PooledEmbedder:
        """Return an embedder that makes vectors of this many dimensions."""
        return PooledEmbedder(self._pool, dimensions=dimensions)

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Return one row per text. Raises LanguageModelError when the process was killed."""
        return await self._pool.run(partial(_embed, dimensions=self._dimensions), tuple(texts))


def _within(seconds: float, work: Callable[[T], R], what: T) -> R:
    if not math.isfinite(seconds) or not hasattr(signal, "setitimer"):
        return work(what)

    def stop(*_: object) -> None:
        raise Refused(f"the request takes more than {seconds:g} s of work: send less")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, where something catches it
    try:
        return work(what)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _complete(request: Request) -> Completion:
    return asyncio.run(EmbeddedModel().complete(request))


def _embed(texts: Sequence[str], *, dimensions: int) -> Embedding:
    return asyncio.run(LexicalEmbedder(dimensions=dimensions).embed(texts))


def context_with(module: str) -> ForkServerContext | SpawnContext:
    """Return how processes start that need a module.

    On Linux one process imports it, and the others are forked from that; elsewhere each imports it again.
    """
    if platform.system() == "Linux":
        multiprocessing.set_forkserver_preload([module])
        with suppress(OSError), interrupts_held():  # its socket has no place where temporary files have none
            forkserver.ensure_running()
            return multiprocessing.get_context("forkserver")
    return multiprocessing.get_context("spawn")


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back: a process that starts meanwhile never hears it, and ends when its parent says so."""
    resource_tracker.ensure_running()  # the first start of a process starts it, and that lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_child(environment: Mapping[str, str]) -> None:
    """Keep this process to its core, and end it with its parent.

    Threads of several processes would wait for each other's cores. ``environment`` is the parent's; this process may
    have been forked with an older one.
    """
    os.environ.clear()
    os.environ.update(environment)
    threadpool_limits(1, user_api="blas")
    end_with_parent()


def end_with_parent() -> None:
    """End this process when its parent has died: nothing else would where that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - only ever called in a child

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
