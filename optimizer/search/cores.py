"""Labels on all cores, where the models run on this machine: tasks are dealt to processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, TypeVar

from ...data.cores import usable_cores
from ...data.task import Task
from ...env import Cast, Track
from ...env.memrm.collection.collect import CollectedEpisode, collect
from ...policies.lm.embedded.pool import begin_child, context_with
from ...policies.policy import MemoryPolicy

T = TypeVar("T")

EPISODES_A_PROCESS = 12
"""Episodes to be played and labelled that make a process of its own worth its start."""


def collect_on(
    processes: int,
    track: Track,
    cast: Cast,
    policies: Mapping[str, Mapping[str, MemoryPolicy]],
    tasks: Sequence[Task],
    *,
    seed: int,
    writes: int | None = None,
    foreign: Mapping[str, Sequence[str]] | None = None,
    done: Callable[[Sequence[CollectedEpisode]], None] = lambda _: None,
) -> list[CollectedEpisode]:
    """Collect like ``collect``, task by task, in their order; ``policies`` are each task's, by key.

    Where given, ``foreign`` are the lines that damages may add, by group. ``done`` hears of each task that is finished.
    """
    episodes = list[CollectedEpisode]()
    work = [
        partial(
            collect,
            track,
            task,
            policies[task.id],
            cast,
            seed=seed,
            writes=writes,
            foreign=None if foreign is None else foreign[task.group],
        )
        for task in tasks
    ]
    with _executor(processes) as executor:
        running = [executor.submit(_finish, each, cast) for each in work]
        try:
            for collected in running:
                episodes += collected.result()
                done(episodes)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
    return episodes


def processes_to_collect(*, per_core: bool, tasks: int, episodes: int) -> int:
    """Return how many processes are worth while; 1 unless the models are worth a copy ``per_core``."""
    worth = episodes // EPISODES_A_PROCESS
    return max(1, min(usable_cores(), tasks, worth)) if per_core else 1


def _executor(processes: int) -> ProcessPoolExecutor:
    context = context_with(collect.__module__)
    return ProcessPoolExecutor(processes, mp_context=context, initializer=begin_child, initargs=(dict(os.environ),))


def _finish(work: Callable[[], Coroutine[Any, Any, T]], cast: Cast) -> T:
    """Do what is to be done in another process, and close what its copy of the cast has opened."""

    async def closing() -> T:
        try:
            return await work()
        finally:
            await cast.aclose()

    return asyncio.run(closing())
