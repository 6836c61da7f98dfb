"""Two processes that call each other over a connection."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

Send = Callable[[bytes], None]
Handler = Callable[..., Awaitable[Any]]


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
        self._running: dict[int, asyncio.Task[None]] = {}

    async def call(self, name: str, *given: Any) -> Any:
        """Return what the other end answers, or raise what it raises; a call that is cancelled ends there first.

        Raises ConnectionLost.
        """
        if self.lost.is_set():
            raise ConnectionLost
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._tell("call", number, name, given)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._tell("cancel", number)
            with suppress(BaseException):
                await asyncio.shield(answer)
            raise

    def receive(self, message: bytes) -> None:
        """Take a message of the other end, in the event loop."""
        what, number, *rest = pickle.loads(message)  # noqa: S301 - from a process that this one started
        if what == "call":
            self._running[number] = asyncio.create_task(self._answer(number, *rest))
        elif what == "cancel":
            if number in self._running:
                self._running[number].cancel()
        elif what == "stop":
            self.lose()
        elif (waiting := self._waiting.pop(number, None)) is not None and not waiting.done():
            if what == "answer":
                waiting.set_result(rest[0])
            else:
                waiting.set_exception(rest[0])

    def stop(self) -> None:
        """Tell the other end that nothing more will come."""
        self._tell("stop", 0)

    def lose(self) -> None:
        """End all calls, as the other end is gone."""
        self.lost.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionLost())
        for task in self._running.values():
            task.cancel()
        self._waiting.clear()

    async def _answer(self, number: int, name: str, given: tuple[Any, ...]) -> None:
        try:
            answer = "answer", number, await self._handlers[name](*given)
        except asyncio.CancelledError:
            answer = "error", number, ConnectionLost()
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller hears it
            answer = "error", number, error
        finally:
            del self._running[number]
        self._tell(*answer)

    def _tell(self, *message: Any) -> None:
        try:
            told = pickle.dumps(message)
        except Exception as error:  # noqa: BLE001 - else the caller would wait for ever
            told = pickle.dumps(("error", message[1], RuntimeError(f"{message[2]!r} cannot be handed over: {error}")))
        with suppress(OSError):  # the other end is gone, as ``lose`` is about to be told
            self._send(told)
