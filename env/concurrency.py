"""Run coroutines side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def side_by_side(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order; when one raises, end the others and raise that."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        await end(tasks)
        raise


async def both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Return both results; when one raises, end the other and raise that."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        one, two = await asyncio.gather(*tasks)
    except BaseException:
        await end(tasks)
        raise
    return one, two


async def end(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they are gone."""
    pending = list(tasks)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
