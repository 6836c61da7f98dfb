"""What lies outside of this program while episodes are played: containers, browsers, and a record of what was seen."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from ..data.errors import MnemotuneError, TryLater
from ..policies.lm import Completion, Usage
from ..policies.lm.cache import Cache
from .concurrency import unwatched

MOST_OPEN = 16
"""Places of one process that are open side by side."""
REST_S = 15.0
"""So long a place stays open for whoever acts there, though others wait: what is closed has to be brought back to where
it was, action by action. Most models go on sooner; an episode that has stopped for a while says so by ``rest``."""


class OutsideFault(MnemotuneError, RuntimeError):  # noqa: N818 - what happened
    """A place has failed, which is nobody's mistake and ends its episode; the message says which, and why."""


class OutsideSilent(TryLater):
    """Nothing outside can be had, such as an engine of containers; the message says what to start."""


class Closing(Protocol):
    """What has to be closed."""

    async def aclose(self) -> None:
        """Release it."""


class Place(Closing, Protocol):
    """Where one episode acts: a container, a page of a browser."""

    async def act(self, action: str) -> str:
        """Do something; return what is seen then, without all that differs from time to time.

        The same actions from the start give the same texts each time. Raises OutsideFault where the place has failed,
        and OutsideSilent where no place can be had.
        """


Open = Callable[[], Awaitable[Place]]
"""Opens a place as it is before any action. Raises OutsideFault and OutsideSilent."""
ClosingT = TypeVar("ClosingT", bound=Closing)


class Outside:
    """The places of a process, of which so many are open at once, what they share, and what was seen in them.

    It can be pickled: a copy opens the same record, and has no place open.
    """

    def __init__(
        self, record: Callable[[], Cache] | None = None, *, most: int = MOST_OPEN, rest_s: float = REST_S
    ) -> None:
        """Keep what is seen in ``record``, which is opened when it is needed; None keeps it in this process."""
        self._record, self._most, self._rest_s = record, most, rest_s
        self._kept: Cache | None = None
        self._seen: dict[str, str] = {}
        self._attempts: dict[str, asyncio.Event] = {}
        """By key, those under way."""
        self._shared: dict[str, asyncio.Future[Any]] = {}
        self._open: dict[Course, Place] = {}
        """By who acts there."""
        self._left: dict[Course, float] = {}
        """When who acted there was done, by the loop's clock."""
        self._busy = set[Course]()
        self._changed = asyncio.Condition()

    def __reduce__(self) -> tuple[Callable[..., Outside], tuple[Any, ...]]:
        return partial(Outside, self._record, most=self._most, rest_s=self._rest_s), ()

    def seen(self, key: str) -> str | None:
        """Return what was seen under a key; None where nothing was."""
        if self._cache is None:
            return self._seen.get(key)
        known = self._cache.get(key)
        return None if known is None else known.text

    async def once(self, key: str, attempt: Callable[[], Awaitable[str]]) -> str:
        """Return what was seen under a key, or what an attempt sees; of several callers one alone attempts it."""
        while (seen := self.seen(key)) is None:
            if key in self._attempts:
                await self._attempts[key].wait()
                continue
            self._attempts[key] = asyncio.Event()
            try:
                self._keep(key, await attempt())
            finally:
                self._attempts.pop(key).set()
        return seen

    async def shared(self, name: str, start: Callable[[], Awaitable[ClosingT]]) -> ClosingT:
        """Return what all places of a kind need, which is started once and closed with the rest.

        What could not be started is tried again at the next call.
        """
        if name not in self._shared:
            self._shared[name] = unwatched(asyncio.ensure_future(start()))
        starting = self._shared[name]
        try:
            started: ClosingT = await asyncio.shield(starting)
        except Exception:
            if self._shared.get(name) is starting:
                del self._shared[name]
            raise
        return started

    async def enter(self, course: Course, start: Open) -> tuple[Place, bool]:
        """Return the place of a course, and whether it is newly open; it stays open until ``leave`` at least.

        Where too many are open, it waits until one is closed; one that nobody has used for ``rest_s`` is closed for it.
        """
        async with self._changed:
            while (wait := self._wait(course)) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait if math.isfinite(wait) else None):
                        await self._changed.wait()
            self._busy.add(course)
            crowded = course not in self._open and len(self._open.keys() | self._busy) > self._most
            closing = self._longest_left() if crowded else None
        try:
            if closing is not None:
                await closing.aclose()
            if course in self._open:
                return self._open[course], False
            self._open[course] = place = await start()
        except BaseException:
            await self.leave(course, close=True)
            raise
        return place, True

    async def rest(self, course: Course) -> None:
        """Let the place of a course be closed as soon as others need one."""
        if course in self._left:
            self._left[course] = -math.inf
            async with self._changed:
                self._changed.notify_all()

    async def leave(self, course: Course, *, close: bool = False) -> None:
        """Let others act; the place may be closed when they need it, or is closed at once."""
        self._busy.discard(course)
        if close:
            self._left.pop(course, None)
        else:
            self._left[course] = asyncio.get_running_loop().time()
        place = self._open.pop(course, None) if close else None
        try:
            if place is not None:
                await place.aclose()
        finally:
            async with self._changed:
                self._changed.notify_all()

    async def aclose(self) -> None:
        """Close all places and all that they share, and the record."""
        while self._open:
            await self._open.popitem()[1].aclose()
        for started in await asyncio.gather(*self._shared.values(), return_exceptions=True):
            if not isinstance(started, BaseException):
                await started.aclose()
        self._shared.clear()
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _wait(self, course: Course) -> float:
        """Return for how many seconds at most a course has to wait until it is looked at again; 0 lets it in."""
        if course in self._open or len(self._open.keys() | self._busy) < self._most:
            return 0.0
        resting = [self._left[other] for other in self._open if other not in self._busy]
        if not resting:
            return math.inf
        return max(0.0, min(resting) + self._rest_s - asyncio.get_running_loop().time())

    def _longest_left(self) -> Place:
        """Return the place that nobody has used for the longest, which is no longer kept."""
        other = min((other for other in self._open if other not in self._busy), key=self._left.__getitem__)
        del self._left[other]
        return self._open.pop(other)

    def _keep(self, key: str, text: str) -> None:
        if self._cache is None:
            self._seen[key] = text
        else:
            self._cache.put(key, Completion(text, Usage(0, 0)))

    @property
    def _cache(self) -> Cache | None:
        if self._kept is None and self._record is not None:
            self._kept = self._record()
        return self._kept


class Course:
    """Actions one after another from the same start. A place is open only where something new is tried.

    What was recorded of the same actions is returned without a place; where one is needed later, it is brought to the
    same point by the same actions.
    """

    def __init__(self, outside: Outside, start: str, place: Open, *, done: Sequence[str] = ()) -> None:
        """``start`` is all that the place depends on before any action; ``place`` opens it."""
        self._outside, self._start, self._place = outside, start, place
        self._done = list(done)
        self._behind = 0
        """How many of these actions the place that is open has behind it."""
        self._turn = asyncio.Lock()

    async def act(self, action: str) -> str:
        """Do something; return what is seen then. Raises OutsideFault and OutsideSilent."""
        async with self._turn:
            seen = await self._outside.once(self._key([*self._done, action]), partial(self._tried, action))
            self._done.append(action)
            return seen

    def fork(self, outside: Outside | None = None) -> Course:
        """Return a course that has the same actions behind it; ``outside`` is where it goes on."""
        return Course(outside or self._outside, self._start, self._place, done=self._done)

    async def rest(self) -> None:
        """Let the place be closed as soon as others need one: nothing is done here for a while."""
        await self._outside.rest(self)

    async def aclose(self) -> None:
        """Close the place, where it is open."""
        await self._outside.leave(self, close=True)

    async def _tried(self, action: str) -> str:
        place, new = await self._outside.enter(self, self._place)
        if new:
            self._behind = 0
        whole = False
        try:
            while self._behind < len(self._done):
                await self._again(place, self._behind)
                self._behind += 1
            seen = await place.act(action)
            self._behind += 1
            whole = True
        finally:
            await self._outside.leave(self, close=not whole)
        return seen

    async def _again(self, place: Place, number: int) -> None:
        """Do an action once more. Raises OutsideFault where something else is seen than before."""
        before = self._outside.seen(self._key(self._done[: number + 1]))
        now = await place.act(self._done[number])
        if before is not None and now != before:
            raise OutsideFault(f"action {number + 1}, {self._done[number]!r}, gave something else when it was repeated")

    def _key(self, actions: Sequence[str]) -> str:
        return hashlib.sha256(json.dumps([self._start, *actions]).encode()).hexdigest()
