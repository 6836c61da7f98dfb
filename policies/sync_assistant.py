"""The assistant for programs without an event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, Self, TypeVar
from weakref import WeakSet, finalize

from .assistant import Assistant
from .lm.base import LanguageModel
from .lm.client import Client
from .memory.protocol import Memory, MemoryEvent

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, which ends with the program at the latest."""

    def __init__(self) -> None:
        """Start the thread."""
        self._restarting = threading.Lock()
        _alive.add(self)
        self._start()

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=_run, args=[self._loop, self._stopped], name="mnemotune", daemon=True)
        self._thread.start()
        self._end = finalize(self, _end, self._loop, self._stopped, self._thread)
        self._process = os.getpid()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work in the loop, and return what comes of it. Raises RuntimeError when it is closed."""
        if not self.alive:
            work.close()
            raise RuntimeError("it is closed")
        if os.getpid() != self._process:  # threads do not come along into a forked process
            self._restart()
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result()
        except KeyboardInterrupt:
            doing.cancel()
            raise

    def _restart(self) -> None:
        with self._restarting:
            if os.getpid() != self._process:
                end = self._end
                self._start()
                end.detach()

    def finish(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do work in the loop; wait for its end unless this is the loop's own thread, where the collector may run."""
        if not self.alive:
            work.close()
        elif threading.current_thread() is self._thread:
            self._loop.create_task(work)
        else:
            self.run(work)

    @property
    def alive(self) -> bool:
        """Whether it is not closed."""
        return self._end.alive

    def close(self) -> None:
        """End what is under way there, the loop and the thread. Closing twice does no harm."""
        self._end()


_alive = WeakSet[LoopThread]()


def _renew_locks() -> None:
    """Have no lock in a forked process that a thread of the other one holds."""
    for each in _alive:
        each._restarting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def _run(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_wait(stopped))


async def _wait(stopped: asyncio.Event) -> None:
    await stopped.wait()


def _end(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(stopped.set)
    if threading.current_thread() is not thread:  # it may be there that the last reference went
        thread.join()


class SyncAssistant:
    """An ``Assistant`` whose methods wait for what they return.

    Threads may share it, and a thread that has an event loop may use it, which stands still meanwhile.
    """

    def __init__(
        self,
        model: LanguageModel | Client,
        memory: Memory,
        *,
        context_tokens: int | None = None,
        model_name: str | None = None,
    ) -> None:
        """Put a model and a memory together, as ``Assistant`` has it; neither may be in use in an event loop."""
        self.assistant = Assistant(model, memory, context_tokens=context_tokens, model_name=model_name)
        self._thread = LoopThread()

    def reply(self, text: str) -> tuple[str, list[MemoryEvent]]:
        """Reply to the user's message and remember both; return the reply and the writes that this set off."""
        return self.run(self.assistant.reply(text))

    def stream(self, text: str) -> Iterator[str]:
        """Yield the reply to the user's message as it comes, and then remember both, as ``Assistant.stream`` does."""
        pieces = self.assistant.stream(text)
        try:
            while (piece := self.run(_next(pieces))) is not None:
                yield piece
        finally:
            self._thread.finish(_closed(pieces))

    def answer(self, prompt: str) -> str:
        """Answer a question; what is remembered stays as it is."""
        return self.run(self.assistant.answer(prompt))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do any other work, for example ``run(assistant.memory.listing())``, and return what comes of it."""
        return self._thread.run(work)

    @property
    def memory(self) -> Memory:
        """The assistant's memory."""
        return self.assistant.memory

    def close(self) -> None:
        """Close the memory and the model's connections. Closing twice does no harm."""
        if self._thread.alive:
            self.run(self.assistant.aclose())
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _next(pieces: AsyncGenerator[str]) -> str | None:
    return await anext(pieces, None)


async def _closed(pieces: AsyncGenerator[str]) -> None:
    await pieces.aclose()
