"""Workers in processes of this machine."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import Any

from ...data import heap
from ...policies.lm.embedded.pool import begin_child, context_with, interrupts_held
from .peer import Handler, Peer, stopping
from .pool import Start
from .worker import Setup, Worker

SECONDS_TO_END = 60.0
"""In which a worker closes its containers and pages; then it is killed."""


def processes(setup: Setup, *, most: int) -> Start:
    """Return how to start workers that are processes, each of which plays ``most`` tasks side by side."""

    async def start(handlers: Mapping[str, Handler]) -> _Process:
        return _Process(setup, handlers, most)

    return start


class _Process:
    """A worker in a process, and a thread that reads what it says."""

    def __init__(self, setup: Setup, handlers: Mapping[str, Handler], most: int) -> None:
        context = context_with(getattr(setup, "func", setup).__module__)
        self._ours, theirs = context.Pipe()
        self.peer = Peer(self._ours.send_bytes, handlers)
        self._process = context.Process(target=_work, args=(theirs, setup, most, dict(os.environ)), daemon=True)
        with interrupts_held():
            self._process.start()
        theirs.close()
        _read(self._ours, self.peer.receive, self.peer.lose)

    async def aclose(self) -> None:
        """End the process."""
        self.peer.stop()
        await asyncio.to_thread(self._process.join, SECONDS_TO_END)
        if self._process.is_alive():
            self._process.kill()
        self.peer.lose()
        self._ours.close()


def _read(connection: Connection[Any, Any], receive: Callable[[bytes], None], lose: Callable[[], None]) -> None:
    """Hand what comes over a connection to the event loop that runs, and at last that nothing will come any more."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(RuntimeError):  # the loop is over
            with suppress(EOFError, OSError):
                while True:
                    loop.call_soon_threadsafe(receive, connection.recv_bytes())
            loop.call_soon_threadsafe(lose)

    threading.Thread(target=read, daemon=True).start()


def _work(connection: Connection[Any, Any], setup: Setup, most: int, environment: Mapping[str, str]) -> None:
    begin_child(environment)
    gc.freeze()  # what it was forked with stays to its end
    heap.collect_seldom()

    async def work() -> None:
        with ExitStack() as stack:
            try:
                track, cast = stack.enter_context(setup())
            except Exception as error:  # noqa: BLE001 - the coordinator hears why, as the user watches that
                connection.send_bytes(stopping(error))
                return
            worker = Worker(track, cast, connection.send_bytes, most=most)
            _read(connection, worker.peer.receive, worker.peer.lose)
            await worker.peer.ended()
            await worker.aclose()
            await cast.aclose()

    asyncio.run(work())
