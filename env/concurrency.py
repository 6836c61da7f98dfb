"""Run coroutines side by side, without losing sight of the longest chain of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..policies.lm.chain import join

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Running(Generic[T]):
    """A coroutine that is under way."""

    task: asyncio.Task[T]
    context: Context

    async def result(self) -> T:
        """Wait for the result: the calls that it took belong to the chain that leads on from here."""
        result = await self.task
        join(self.context)
        return result


def start(coroutine: Coroutine[Any, Any, T]) -> Running[T]:
    """Begin to run a coroutine."""
    context = copy_context()
    return Running(asyncio.create_task(coroutine, context=context), context)


async def side_by_side(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order; when one raises, end the others and raise that."""
    running = [start(coroutine) for coroutine in coroutines]
    try:
        results = list(await asyncio.gather(*(child.task for child in running)))
    except BaseException:
        await end(running)
        raise
    join(*(child.context for child in running))
    return results


async def both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Return both results; when one raises, end the other and raise that."""
    several: list[Coroutine[Any, Any, Any]] = [first, second]
    first_result, second_result = await side_by_side(several)
    return first_result, second_result


def unwatched(future: asyncio.Future[T]) -> asyncio.Future[T]:
    """Return a future whose failure is no news where everybody who waited for it has been ended."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


async def end(running: Iterable[Running[Any]]) -> None:
    """Cancel what is under way and wait until it is gone."""
    tasks = [child.task for child in running]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
