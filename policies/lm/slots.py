"""A limit on calls under way, first come first served within the same urgency."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class Slots:
    """A number of places; the waiting call with the lowest ``urgency`` number comes next, the earliest of equals."""

    def __init__(self, places: int) -> None:
        """Start with all places free."""
        self._free = places
        self._order = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def taken(self, urgency: int) -> AsyncIterator[None]:
        """Wait for a place and keep it inside the block."""
        await self._take(urgency)
        try:
            yield
        finally:
            self._free += 1
            self._wake()

    async def _take(self, urgency: int) -> None:
        place = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (urgency, next(self._order), place))
        self._wake()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was given a place at the very moment
                self._free += 1
                self._wake()
            raise

    def _wake(self) -> None:
        """Give free places to those who wait and have not been cancelled."""
        while self._free and self._waiting:
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                self._free -= 1
                place.set_result(None)
