"""The coordinator's side: a fixed pool of workers, each of which holds the episodes that it began."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ...data.errors import MnemotuneError
from ...data.task import Task, grouped
from ...policies.lm import Budget, BudgetExhausted, LanguageModelError, Ledger, Usage
from ...policies.lm.budget import account
from ...policies.lm.chain import add_chain
from ...policies.lm.tab import Amount, Lender, Report
from ...policies.policy import MemoryPolicy
from ..concurrency import side_by_side
from ..episode import Bounds, Episode
from ..outside import OutsideFault
from ..runner import EpisodeRunner
from ..track import Track
from .peer import ConnectionLost, Handler, Peer
from .worker import Phase

MOST_WAITING = 64
"""Pieces of work that look for a worker whenever one is free; those behind them wait in line."""
MOST_LOSSES = 3
"""Workers that one piece of work may lose; it may be what kills them."""


class WorkersLost(MnemotuneError, RuntimeError):  # noqa: N818 - what happened
    """The same work lost one worker after another."""


class Link(Protocol):
    """A worker that runs."""

    peer: Peer

    async def aclose(self) -> None:
        """End the worker."""


Start = Callable[[Mapping[str, Handler]], Awaitable[Link]]
"""Starts a worker that calls these handlers."""


@dataclass(slots=True)
class _Place:
    """A worker and how many pieces of work it has."""

    link: Link
    load: int = 0


class Pool:
    """Workers that play episodes; one that is lost is replaced, and its work begins anew elsewhere."""

    def __init__(self, start: Start, *, workers: int, each: int) -> None:
        """Start so many workers when there is something to do; each plays the tasks of ``each`` groups at once."""
        self.workers = workers
        self._start = start
        self._each = each
        self.places: list[_Place] = []
        """The workers that run."""
        self._changed = asyncio.Condition()
        self._line = asyncio.Semaphore(MOST_WAITING)
        self._lenders: list[Lender | None] = []

    def runner(
        self,
        track: Track,
        *,
        budget: Budget | None,
        reworded: bool = False,
        recorded: frozenset[str] = frozenset(),
    ) -> EpisodeRunner:
        """Return a runner whose calls are within a budget; a later runner ends the episodes of an earlier one."""
        phase = Phase(len(self._lenders), None if budget is None else budget.limits, reworded, recorded)
        self._lenders.append(None if budget is None else Lender(budget, workers=self.workers))
        return Dealt(self, track, phase, budget)

    async def open(self) -> None:
        """Start the workers that are not started yet, so that they get ready meanwhile."""
        async with self._changed:
            if not self.places:
                self.places = list(await asyncio.gather(*(self._begin() for _ in range(self.workers))))

    async def aclose(self) -> None:
        """End all workers."""
        await asyncio.gather(*(place.link.aclose() for place in self.places))
        self.places.clear()

    @asynccontextmanager
    async def place(self, wanted: _Place | None) -> AsyncIterator[_Place]:
        """Wait for a worker that is not busy: the one ``wanted`` where it is still there, else the least busy."""
        await self.open()
        async with self._line, self._changed:
            while True:
                free = [place for place in self.places if place.load < self._each]
                candidates = [place for place in free if place is wanted] if wanted in self.places else free
                if candidates:
                    break
                await self._changed.wait()
            place = min(candidates, key=lambda place: place.load)
            place.load += 1
        try:
            yield place
        finally:
            place.load -= 1
            async with self._changed:
                self._changed.notify_all()

    async def replace(self, lost: _Place) -> None:
        """Start another worker in the place of one that is gone."""
        async with self._changed:
            if lost in self.places:
                for lender in filter(None, self._lenders):
                    lender.lose(id(lost.link.peer))
                await lost.link.aclose()
                self.places[self.places.index(lost)] = await self._begin()

    async def _begin(self) -> _Place:
        link: Link | None = None

        def lender_of(phase: int) -> Lender:
            lender = self._lenders[phase]
            assert lender is not None  # noqa: S101 - who reports has a budget
            return lender

        def worker_of() -> int:
            assert link is not None  # noqa: S101 - who calls has begun
            return id(link.peer)

        async def settle(phase: int, report: Report) -> None:
            lender_of(phase).settle(worker_of(), report)

        async def borrow(phase: int, worst: Usage, key: bytes | None) -> Amount | None:
            return await lender_of(phase).lend(worker_of(), worst, key)

        async def retry(phase: int, worst: Usage) -> None:
            await lender_of(phase).retry(worker_of(), worst)

        async def log(name: str, level: int, text: str) -> None:
            logging.getLogger(name).log(level, "%s", text)

        link = await self._start({"settle": settle, "borrow": borrow, "retry": retry, "log": log})
        return _Place(link)


class Dealt(EpisodeRunner):
    """Deals groups to the workers of a pool; a group's stopped episodes go on where they are."""

    def __init__(self, pool: Pool, track: Track, phase: Phase, budget: Budget | None) -> None:
        """Play tasks of this track in a phase of the run."""
        self._pool = pool
        self._track = track
        self._phase = phase
        self._budget = budget
        self._stopped: dict[tuple[str, str], _Place] = {}
        """By policy key and group."""

    async def run(
        self,
        policy: MemoryPolicy,
        tasks: Sequence[Task],
        *,
        replays: Mapping[str, Episode] | None = None,
        stages: int | None = None,
        done: Callable[[Episode], None] = lambda _: None,
    ) -> list[Episode]:
        """Play the policy in every task, group by group, in one worker where the track has it in turn."""
        groups = grouped(tasks)

        async def run(name: str, members: Sequence[Task], longest: int) -> list[Episode]:
            spot = policy.key, name
            theirs = None if replays is None else {task.id: replays[task.id] for task in members if task.id in replays}
            place, episodes = await self._call(self._stopped.pop(spot, None), "run", policy, members, theirs, stages)
            if stages is not None and stages < longest:
                self._stopped[spot] = place
            else:
                for episode in episodes:
                    done(episode)
            return list(episodes)

        if self._track.in_turn(policy):
            return await run("", tasks, max((group.stages for group in groups), default=0))
        parts = await side_by_side(run(group.id, group.tasks, group.stages) for group in groups)
        by_task = {episode.task: episode for part in parts for episode in part}
        return [by_task[task.id] for task in tasks]

    async def bounds(self, task: Task) -> tuple[Bounds | LanguageModelError | OutsideFault, Ledger]:
        """Find a task's bounds."""
        _, found = await self._call(None, "bounds", task)
        bounds: tuple[Bounds | LanguageModelError | OutsideFault, Ledger] = found
        return bounds

    async def leave(self, policy: MemoryPolicy) -> None:
        """End a policy's episodes that have stopped."""
        left = {spot: place for spot, place in self._stopped.items() if spot[0] == policy.key}
        for spot in left:
            del self._stopped[spot]
        for place in {id(place): place for place in left.values()}.values():
            try:
                await place.link.peer.call("leave", self._phase, policy)
            except ConnectionLost:
                await self._pool.replace(place)

    async def _call(self, wanted: _Place | None, name: str, *given: Any) -> tuple[_Place, Any]:
        """Return where a piece of work was done, and its result."""
        for _ in range(MOST_LOSSES):
            async with self._pool.place(wanted) as place:
                try:
                    result, ledger, chain = await self._in_time(place, name, *given)
                except ConnectionLost:
                    await self._pool.replace(place)
                    continue
            open_account = account()
            if open_account is not None:
                open_account.add_ledger(ledger)
            add_chain(chain)
            return place, result
        raise WorkersLost(f"{MOST_LOSSES} workers ended without a word; see the system's log, and lower workers.count")

    async def _in_time(self, place: _Place, name: str, *given: Any) -> Any:
        limit = asyncio.timeout(None if self._budget is None else self._budget.seconds_left)
        try:
            async with limit:
                return await place.link.peer.call(name, self._phase, *given)
        except TimeoutError:
            if self._budget is None or not limit.expired():
                raise
            raise BudgetExhausted(f"the budget of {self._budget.limits.seconds:.0f} seconds is spent") from None
