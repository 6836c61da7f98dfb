"""Evaluations and labels on all cores, where the models run on this machine: groups are dealt to processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from ...data.task import Task, grouped, tasks_of
from ...env import Cast, Episode, Evaluation, Evaluator, Track
from ...env.memrm.collection.collect import CollectedEpisode, collect
from ...policies.lm import merged
from ...policies.lm.embedded.pool import end_with_parent
from ...policies.policy import MemoryPolicy

T = TypeVar("T")

TASKS_A_PROCESS = 4
"""Tasks that make a process of its own worth its start."""
EPISODES_A_PROCESS = 12
"""Episodes to be played and labelled that do the same."""


def processes_for(track: Track, tasks: int, *, per_core: bool) -> int:
    """Return how many processes are worth while; 1 unless the models are worth a copy ``per_core``.

    AMemGym's guesses go on from user to user and cannot be dealt out.
    """
    if not per_core or "guessed_answers" in track.compat:
        return 1
    return max(1, min(os.cpu_count() or 1, tasks // TASKS_A_PROCESS))


def evaluate_on(
    processes: int,
    track: Track,
    cast: Cast,
    policies: Mapping[str, MemoryPolicy],
    tasks: Sequence[Task],
    *,
    replays: Mapping[str, Episode] | None = None,
    done: Callable[[Episode], None] = lambda _: None,
) -> dict[str, Evaluation]:
    """Evaluate policies like ``evaluate_all``, with the same result; seconds are those of the slowest process.

    ``done`` hears of a process's episodes when all of them are finished. Raises what ``Evaluator.evaluate`` raises.
    """
    groups = grouped(tasks)
    shares = [tasks_of(groups[i::processes]) for i in range(processes)]
    parts = []
    with _executor(processes) as executor:
        work = [partial(evaluate_all, track, cast, policies, share, replays) for share in shares]
        for running in [executor.submit(_finish, each) for each in work]:
            parts.append(running.result())
            for episode in chain.from_iterable(evaluation.episodes for evaluation in parts[-1].values()):
                done(episode)
    return {name: _joined(track, [part[name] for part in parts], tasks) for name in policies}


async def evaluate_all(
    track: Track,
    cast: Cast,
    policies: Mapping[str, MemoryPolicy],
    tasks: Sequence[Task],
    replays: Mapping[str, Episode] | None,
    *,
    done: Callable[[Episode], None] = lambda _: None,
) -> dict[str, Evaluation]:
    """Evaluate policies one after another, by name; the first is billed for the bounds."""
    evaluator, parts = Evaluator(track, cast), policies.items()
    return {name: await evaluator.evaluate(policy, tasks, replays=replays, done=done) for name, policy in parts}


def collect_on(
    processes: int,
    track: Track,
    cast: Cast,
    policies: Mapping[str, Mapping[str, MemoryPolicy]],
    tasks: Sequence[Task],
    *,
    seed: int,
    writes: int | None = None,
    done: Callable[[Sequence[CollectedEpisode]], None] = lambda _: None,
) -> list[CollectedEpisode]:
    """Collect like ``collect``, task by task, in their order; ``policies`` are each task's, by key.

    ``done`` hears of each task that is finished.
    """
    episodes = list[CollectedEpisode]()
    work = [partial(collect, track, task, policies[task.id], cast, seed=seed, writes=writes) for task in tasks]
    with _executor(processes) as executor:
        running = [executor.submit(_finish, each) for each in work]
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
    return max(1, min(os.cpu_count() or 1, tasks, worth)) if per_core else 1


def _executor(processes: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=end_with_parent)


def _finish(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(work())


def _joined(track: Track, parts: Sequence[Evaluation], tasks: Sequence[Task]) -> Evaluation:
    scores = {score.group: score for part in parts for score in part.groups}
    by_task = {episode.task: episode for part in parts for episode in part.episodes}
    bounds = {task: bound for part in parts for task, bound in part.bounds.items()}
    episodes = [by_task[task.id] for task in tasks]
    known = {task.id: bounds[task.id] for task in tasks if task.id in bounds}
    return replace(
        parts[0],
        groups=tuple(scores[group.id] for group in grouped(tasks) if group.id in scores),
        episodes=tuple(episodes),
        group_of={task.id: task.group for task in tasks},
        bounds=known,
        extras=track.extras(tasks, episodes, known),
        ledger=merged([part.ledger for part in parts]),
        wall_s=max(part.wall_s for part in parts),
        critical_path=max((part.critical_path for part in parts), key=lambda path: path.calls),
    )
