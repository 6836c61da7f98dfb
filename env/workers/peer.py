"""Two processes that call each other over a connection."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from ..concurrency import unwatched

Send = Callable[[bytes], None]
Handler = Callable[..., Coroutine[Any, Any, Any]]
SECONDS_TO_CANCEL = 30.0
"""An episode closes its containers and pages in the meantime."""


class ConnectionLost(Exception):  # noqa: N818 - what happened, not a fault of the caller's
    """The other process is gone."""


class Peer:
    """One end of a connection. What it receives must come from a process that is trusted."""

    def __init__(self, send: Send, handlers: Mapping[str, Handler]) -> None:
        """Answer calls with ``handlers`` by name; ``send`` takes what is for the other end."""
        self.lost = asyncio.Event()
        """Set when the other end is gone."""
        self._send = send
        self._handlers = handlers
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._why: Exception = ConnectionLost()

    async def call(self, name: str, *given: Any) -> Any:
        """Return what the other end answers, or raise what it raises; a call that is cancelled ends there first.

        What does not end there in half a minute is left to itself. Raises ConnectionLost.
        """
        if self.lost.is_set():
            raise self._why
        number, answer = next(self._numbers), unwatched(asyncio.get_running_loop().create_future())
        self._tell(pickle.dumps(("call", number, name, given)))
        self._waiting[number] = answer
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._tell(pickle.dumps(("cancel", number)))
            await _settled(answer)
            raise

    def receive(self, message: bytes) -> None:
        """Take a message of the other end, in the event loop."""
        what, number, *rest = pickle.loads(message)  # noqa: S301 - from a process that this one started
        if what == "call":
            name, given = rest
            task = self._running[number] = asyncio.create_task(self._handlers[name](*given))
            task.add_done_callback(lambda done: self._answer(number, done))
        elif what == "cancel":
            if number in self._running:
                self._running[number].cancel()
        elif what == "stop":
            self.lose(*rest)
        elif (waiting := self._waiting.pop(number, None)) is not None and not waiting.done():
            if what == "answer":
                waiting.set_result(rest[0])
            else:
                waiting.set_exception(rest[0])

    def stop(self) -> None:
        """Tell the other end that nothing more will come."""
        self._tell(stopping())

    def lose(self, why: Exception | None = None) -> None:
        """End all calls, as the other end is gone; what it said of why is raised."""
        if not self.lost.is_set():
            self._why = why or ConnectionLost()
        self.lost.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._why)
        for task in self._running.values():
            task.cancel()
        self._waiting.clear()

    async def ended(self) -> None:
        """Wait until the other end is gone, and what it asked for is over."""
        await self.lost.wait()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _answer(self, number: int, done: asyncio.Task[Any]) -> None:
        del self._running[number]
        error = ConnectionLost() if done.cancelled() else done.exception()
        try:
            told = pickle.dumps(("answer", number, done.result()) if error is None else ("error", number, error))
            pickle.loads(told)  # noqa: S301 - our own; some errors can be written and not read
        except Exception as why:  # noqa: BLE001 - else the caller would wait for ever
            told = pickle.dumps(("error", number, RuntimeError(f"{error or why!r} cannot be handed over as it is")))
        self._tell(told)

    def _tell(self, message: bytes) -> None:
        with suppress(OSError):  # the other end is gone, as ``lose`` is about to be told
            self._send(message)


async def _settled(answer: asyncio.Future[Any]) -> None:
    """Wait for an answer, however often the wait is cancelled."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SECONDS_TO_CANCEL
    while not answer.done() and (left := until - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([answer], timeout=left)


def stopping(why: Exception | None = None) -> bytes:
    """Return the message that nothing more will come, and why, where that is an error."""
    return pickle.dumps(("stop", 0, why))
