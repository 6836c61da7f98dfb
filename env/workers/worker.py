"""What a worker does: it plays episodes, and spends what it is lent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Any

from ...data.task import Task
from ...policies.lm import Ledger, Limits, Metered, MeteredEmbedder, on_account
from ...policies.lm.chain import chain
from ...policies.lm.tab import Tab
from ...policies.policy import MemoryPolicy
from ..episode import Episode
from ..runner import Here
from ..track import Cast, Track
from .peer import ConnectionLost, Peer, Send

Setup = Callable[[], AbstractContextManager[tuple[Track, Cast]]]
"""Opens what a worker plays with, in the worker; it can be pickled."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a run with a budget of its own."""

    number: int
    limits: Limits | None
    """None is no budget."""
    reworded: bool
    recorded: frozenset[str]


class LogForwarder(logging.Handler):
    """Hands warnings to the process that the user watches."""

    def __init__(self, tell: Callable[[str, int, str], None]) -> None:
        """Hand each to ``tell`` as the logger's name, the level and the text."""
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over a record."""
        self._tell(record.name, record.levelno, record.getMessage())


class Worker:
    """Plays episodes for a coordinator, one phase after another."""

    def __init__(self, track: Track, cast: Cast, send: Send, *, most: int) -> None:
        """Play tasks of this track, ``most`` side by side; ``send`` takes what is for the coordinator."""
        self.peer = Peer(send, {"run": self._run, "bounds": self._bounds, "leave": self._leave})
        self._track = track
        self._cast = cast
        self._most = most
        self._phase: Phase | None = None
        self._tab: Tab | None = None
        self._here = Here(track, cast)
        self._loop = asyncio.get_running_loop()
        self._told = set[asyncio.Task[None]]()
        logging.getLogger("mnemotune").addHandler(LogForwarder(self._log))

    async def _run(
        self,
        phase: Phase,
        policy: MemoryPolicy,
        tasks: Sequence[Task],
        replays: Mapping[str, Episode] | None,
        stages: int | None,
    ) -> Any:
        return await self._account(phase, lambda here: here.run(policy, tasks, replays=replays, stages=stages))

    async def _bounds(self, phase: Phase, task: Task) -> Any:
        return await self._account(phase, lambda here: here.bounds(task))

    async def _leave(self, phase: Phase, policy: MemoryPolicy) -> None:
        if phase == self._phase:
            await self._here.leave(policy)

    async def _account(self, phase: Phase, work: Callable[[Here], Any]) -> Any:
        """Return what the work returns, what it took, and its longest chain of calls."""
        await self._enter(phase)
        ledger, tab = Ledger(), self._tab
        try:
            with on_account(ledger):
                result = await work(self._here)
        finally:
            if tab is not None:
                await tab.report()
        return result, ledger, chain()

    async def aclose(self) -> None:
        """End the episodes that have stopped."""
        await self._here.aclose()

    async def _enter(self, phase: Phase) -> None:
        if phase == self._phase:
            return
        left = self._here
        self._phase, self._tab = phase, None
        cast = replace(self._cast, reworded=phase.reworded, recorded=phase.recorded)
        if phase.limits is not None:
            tab = self._tab = Tab(
                phase.limits,
                settle=lambda report: self.peer.call("settle", phase.number, report),
                borrow=lambda worst, key: self.peer.call("borrow", phase.number, worst, key),
                retry=lambda worst: self.peer.call("retry", phase.number, worst),
            )
            cast = replace(
                cast,
                assistant=Metered(cast.assistant, budget=tab),
                user=Metered(cast.user, budget=tab),
                embedder=MeteredEmbedder(cast.embedder, budget=tab),
            )
        self._here = Here(self._track, cast, most=self._most)
        await left.aclose()

    def _log(self, name: str, level: int, text: str) -> None:
        """Hand a record over, from whatever thread it comes."""
        self._loop.call_soon_threadsafe(self._begin_to_log, name, level, text)

    def _begin_to_log(self, *record: Any) -> None:
        async def log() -> None:
            with suppress(ConnectionLost):
                await self.peer.call("log", *record)

        task = asyncio.create_task(log())
        self._told.add(task)
        task.add_done_callback(self._told.discard)
