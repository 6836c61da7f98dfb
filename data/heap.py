"""The memory that the C library keeps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def trim() -> None:
    """Give freed memory back to the system, where the C library can be asked to.

    What lives long lies between what does not, so that the GNU C library keeps what was freed and takes new memory all
    the same: a tenth of a search's memory after half a million calls.
    """
    _malloc_trim()(0)


@cache
def _malloc_trim() -> Callable[[int], int]:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return lambda _: 0
