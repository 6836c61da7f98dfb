"""Outages: an endpoint that answers no call is waited for, and its calls go on together."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ...data.errors import TryLater
from .base import EndpointDown, LanguageModelError

SHORTEST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
SHARE_OF_OUTAGE = 0.1
"""The next ping comes after this share of the time that the outage has lasted: little is lost when it ends."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Clock:
    """Where waits take time and chance from."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    seconds: Callable[[], float] = time.monotonic
    """Never runs backwards; its zero means nothing."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    chance: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)
    """Uniform in [0, 1). Spreads retries out; no result depends on it."""


class EndpointSilent(EndpointDown, TryLater):
    """No call got through for so long that the run ends; it can be resumed once the endpoint answers."""


class Unanswered(Exception):  # noqa: N818 - what it means, not what it is
    """A call came to nothing, and another may do better."""

    def __init__(
        self,
        what: str,
        *,
        limits_rate: bool = False,
        retry_after: float | None = None,
        kind: type[LanguageModelError] = LanguageModelError,
    ) -> None:
        """``retry_after`` is in seconds, where the server says it; ``limits_rate`` where calls come too fast for it.

        Where no attempt does better, it is an error of ``kind``.
        """
        super().__init__(what)
        self.limits_rate = limits_rate
        self.retry_after = retry_after
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Seen:
    """How an endpoint did until some moment."""

    replies: int
    outages: int


class Outages:
    """Tells an endpoint that answers nothing from a request that alone fails. Lives in one event loop."""

    def __init__(self, where: str, *, longest_seconds: float, clock: Clock) -> None:
        """Watch the endpoint that messages call ``where``; end an outage of more than ``longest_seconds``."""
        self._where = where
        self._longest = longest_seconds
        self._clock = clock
        self._replies = self._outages = 0
        self._pinging = asyncio.Lock()
        self._answers = asyncio.Event()
        self._answers.set()
        self._end: EndpointSilent | None = None
        self._waited = 0.0
        """Seconds of the outage that is under way."""

    @property
    def seen(self) -> Seen:
        """How the endpoint did until now."""
        return Seen(self._replies, self._outages)

    def note_reply(self) -> None:
        """Note that a call got through."""
        self._replies += 1
        self._waited, self._end = 0.0, None

    async def over(self) -> None:
        """Wait until no outage is known of."""
        await self._answers.wait()

    async def waited_out(self, error: Unanswered, since: Seen, ping: Callable[[], Awaitable[object]]) -> bool:
        """Tell whether the endpoint has been answering no call ``since`` then; if so, it answers again by now.

        ``ping`` raises Unanswered as long as it does not answer. Raises EndpointSilent when that lasts too long.
        """
        async with self._pinging:
            if self._end is not None:
                raise self._end
            if self._outages > since.outages:
                return True
            if self._replies > since.replies or await self._problem(ping) is None:
                return False
            self._answers.clear()
            try:
                await self._wait(error, ping)
            finally:
                self._answers.set()
            return True

    def too_long(self, seconds: float) -> bool:
        """Tell whether no run waits that long."""
        return seconds > self._longest

    async def _wait(self, error: Unanswered, ping: Callable[[], Awaitable[object]]) -> None:
        began = self._clock.now() - timedelta(seconds=self._waited)
        clock_time = f"{began.astimezone():%H:%M:%S}"
        _log.warning(
            "%s: %s. No call gets through: paused at %s; trying again for at most %s, then the run ends and can be"
            " resumed",
            self._where,
            error,
            clock_time,
            _duration(self._longest),
        )
        problem: Unanswered | None = error
        while problem is not None:
            growing = min(LONGEST_WAIT_SECONDS, max(SHORTEST_WAIT_SECONDS, SHARE_OF_OUTAGE * self._waited))
            wait = max(growing, problem.retry_after or 0.0)
            if self._waited + wait > self._longest:
                for_long = f"no call got through for {_duration(self._waited)}, since {clock_time}"
                self._end = EndpointSilent(f"{self._where}: {for_long}: {problem}")
                raise self._end
            start = self._clock.seconds()
            await self._clock.sleep(wait)
            waited = self._waited
            problem = await self._problem(ping)
            self._waited = waited + max(wait, self._clock.seconds() - start)
        self._outages += 1
        _log.warning("%s: calls get through again after %s; the run goes on", self._where, _duration(self._waited))
        self._waited = 0.0

    async def _problem(self, ping: Callable[[], Awaitable[object]]) -> Unanswered | None:
        """Return why a ping is not answered; None when it is."""
        try:
            await ping()
        except Unanswered as error:
            return error
        except EndpointDown:
            raise
        except LanguageModelError:
            pass  # it refuses so short a request; that is an answer
        self.note_reply()
        return None


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
