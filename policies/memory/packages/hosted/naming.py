"""Names that are counted, so that the same messages make the same prompts; and the day that prompts say."""

from __future__ import annotations

import concurrent.futures
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any

DAY = "2026-01-01"
"""Packages write the date into their prompts: today's would make each day's calls other ones."""
_made: ContextVar[list[int] | None] = ContextVar("_made", default=None)
"""How many names the store at hand has given."""
_random_name = uuid.uuid4


def _counted_name() -> uuid.UUID:
    made = _made.get()
    if made is None:
        return _random_name()
    made[0] += 1
    return uuid.UUID(int=made[0], version=4)


@contextmanager
def counting(made: list[int]) -> Iterator[None]:
    """Count the names that are given inside the block."""
    token = _made.set(made)
    try:
        yield
    finally:
        _made.reset(token)


class _Pool(concurrent.futures.ThreadPoolExecutor):
    """Threads that know whose names they give."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return super().submit(copy_context().run, fn, *args, **kwargs)


def count_names() -> None:
    """Have every package count, also in the threads that it starts."""
    uuid.uuid4 = _counted_name
    vars(concurrent.futures).update(ThreadPoolExecutor=_Pool)
