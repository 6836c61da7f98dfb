"""Values that belong to an event loop, such as locks and connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerLoop(Generic[T]):
    """A value for each event loop that asks, made when it first does, and gone with the loop."""

    def __init__(self, make: Callable[[], T]) -> None:
        """Make nothing yet."""
        self._make = make
        self._made = WeakKeyDictionary[asyncio.AbstractEventLoop, T]()
        self._making = Lock()

    def here(self) -> T:
        """Return the running loop's value."""
        loop = asyncio.get_running_loop()
        with self._making:
            value = self._made.get(loop)
            if value is None:
                for other in [other for other in self._made if other.is_closed()]:  # a value may hold on to its loop
                    del self._made[other]
                value = self._made[loop] = self._make()
        return value
