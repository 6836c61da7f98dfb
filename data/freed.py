"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Give back what the C library keeps of freed memory, where it can be asked to.

    What lives long lies between what does not, so that the GNU C library keeps a quarter of a long search's memory for
    later and takes new memory all the same.
    """
    _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return lambda _: 0
