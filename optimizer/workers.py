"""Where a config's episodes are played: in this process, or by workers on all cores."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..data.cores import usable_cores
from ..env import Cast, Track
from ..env.runner import EpisodeRunner, Here
from ..env.workers import Pool, processes
from ..env.workers.on_ray import on_ray
from ..policies.lm import Budget
from .config import Config
from .models import Models, open_models, track_of

CALLS_A_PROCESS = 10_000
"""Calls of the embedded model that make a process of its own worth its start."""


def open_pool(
    config: Config, models: Models, *, folder: Path | None, calls: float, most: int, repeat: int = 0
) -> Pool | None:
    """Return the workers that a config asks for, none of which is started yet; None is this process.

    ``calls`` are the most that are expected, and ``most`` the groups that can be under way at once.
    """
    workers = config.workers
    count = workers.count or usable_cores()
    if workers.runner == "auto":  # a process that was dealt a search has its core for itself
        alone = not models.per_core or multiprocessing.parent_process() is not None
        count = 1 if alone else min(count, int(calls // CALLS_A_PROCESS))
    count = min(count, most)
    if workers.runner == "here" or (workers.runner == "auto" and count < 2):
        return None
    under_way = under_way_of(config)
    if models.per_core:
        setup, each = partial(given, track_of(config), models.cast), 1
    else:
        setup = partial(_opened, _paced(config, count), folder, repeat, models.cast.readers)
        each = max(1, under_way // count)
    if workers.runner == "ray":
        start = on_ray(setup, most=under_way, address=workers.address, cores=int(models.per_core))
    else:
        start = processes(setup, most=under_way)
    return Pool(start, workers=count, each=each)


def runner_of(pool: Pool | None, track: Track, cast: Cast, config: Config, *, budget: Budget | None) -> EpisodeRunner:
    """Return who plays with a cast whose calls are within a budget; without a pool it is this process."""
    if pool is None:
        return Here(track, cast, most=under_way_of(config))
    return pool.runner(track, budget=budget, reworded=cast.reworded, recorded=cast.recorded)


def _paced(config: Config, workers: int) -> Config:
    """Return a config whose requests a minute are one worker's part of them."""
    whole = config.endpoint.requests_per_minute
    part = {"requests_per_minute": None if whole is None else max(1, whole // workers)}
    return config.model_copy(update={"endpoint": config.endpoint.model_copy(update=part)})


def under_way_of(config: Config) -> int:
    """Return how many tasks one process plays side by side: each has one request at least for the endpoint."""
    return config.endpoint.concurrency


@contextmanager
def given(track: Track, cast: Cast) -> Iterator[tuple[Track, Cast]]:
    """Set a worker up with copies of these."""
    yield track, cast


@contextmanager
def _opened(
    config: Config, folder: Path | None, repeat: int, readers: Mapping[str, str]
) -> Iterator[tuple[Track, Cast]]:
    with open_models(config, folder=folder, repeat=repeat) as models:
        yield track_of(config), replace(models.cast, readers=readers)
