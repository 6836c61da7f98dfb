"""How a process finds memory that it needs no more, and gives it back."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from functools import cache

M_MMAP_THRESHOLD = -3
"""The number of a setting in the GNU C library's malloc.h."""
LARGE_BYTES = 128 * 1024
"""Of a block that the system gives and gets back by itself; the GNU C library begins with as much."""


def collect_seldom() -> None:
    """Look for objects that hold each other every 20,000 new ones.

    Hardly any do, and to look every 700, as is usual, takes a twentieth of the time.
    """
    gc.set_threshold(20_000, 20, 20)


def trim() -> None:
    """Give freed memory back to the system, where the C library can be asked to.

    What lives long lies between what does not, so that the GNU C library keeps what was freed and takes new memory all
    the same: a tenth of a search's memory after half a million calls. The first call
    fixes the size from which blocks lie apart, too.
    """
    _malloc_trim()(0)


@cache
def _malloc_trim() -> Callable[[int], int]:
    try:
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)  # it would grow with each large block that is freed
        return library.malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return lambda _: 0
