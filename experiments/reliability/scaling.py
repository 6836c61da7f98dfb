"""How calls a second grow with workers that ask a server with a fixed latency, and what killing workers changes.

python -m mnemotune.experiments.reliability.scaling [--runner ray] [--workers 1,2,4,8] [--kill 2]

Each worker has 16 calls in flight. The server answers the same to all; what counts is how many it answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ...env import Evaluation, Evaluator, Summary
from ...optimizer.config import Config, parse_config
from ...optimizer.models import open_models, track_of
from ...optimizer.workers import open_pool
from ...policies.files import load_policy
from ...policies.lm import Budget, Charges, Limits
from ...policies.lm.chain import NO_CALLS
from ..command import run
from .waiting import waiting_server

LATENCY_SECONDS = 0.2
IN_FLIGHT = 16
USERS_A_WORKER = 24


def configured(url: str, runner: str, workers: int) -> Config:
    """Return the settings of one measurement."""
    return parse_config(
        json.dumps(
            {
                "data": f"generated:{USERS_A_WORKER * workers + 4}@9",
                "splits": {"train": 1, "validation": 2, "test": 2},
                "seed_policy": "awe",
                "model": "openai:slow",
                "context_tokens": 1000,
                "endpoint": {"base_url": url, "concurrency": IN_FLIGHT, "cache": False},
                "workers": {"runner": runner, "count": workers},
            }
        ),
        where="scaling",
    )


async def measured(config: Config, answered: Any, workers: int, kill: int) -> tuple[Evaluation, float, int]:
    """Evaluate a policy once the workers are up; return the calls a second, and the calls that were charged."""
    track = track_of(config)
    tasks = track.load(config.data)[: USERS_A_WORKER * workers]
    budget = Budget(Limits(calls=10**9), charges=Charges(), phase="search")
    with open_models(config, folder=None) as models:
        pool = open_pool(config, models, folder=None, calls=0, most=len(tasks))
        assert pool is not None  # noqa: S101 - the runner is no process of ours
        async with aclosing(pool):
            evaluator = Evaluator(track, models.cast, runner=pool.runner(track, budget=budget))
            await evaluator.evaluate(load_policy("native"), tasks[:workers], stages=1)  # starts all workers
            before, start = answered.value, time.monotonic()
            going_on = asyncio.create_task(evaluator.evaluate(load_policy("awe"), tasks, stages=2))
            await asyncio.sleep(1.0)
            for place in pool.places[:kill]:
                await place.link.aclose()
            evaluation = await going_on
            return evaluation, (answered.value - before) / (time.monotonic() - start), budget.calls


def main(runner: str = "ray", workers: str = "1,2,4,8", kill: int = 0) -> None:
    """Measure with each number of workers; with ``kill``, also with so many killed, and compare."""
    first: Any = None
    print("| workers | calls a second | of linear |\n|---|---|---|")
    with waiting_server(LATENCY_SECONDS) as (url, answered):
        for count in map(int, workers.split(",")):
            evaluation, rate, _ = asyncio.run(measured(configured(url, runner, count), answered, count, 0))
            first = first or rate / count
            print(f"| {count} | {rate:,.0f} | {rate / count / first:.2f} |", flush=True)
            if kill and count > kill:
                again, rate, _ = asyncio.run(measured(configured(url, runner, count), answered, count, kill))
                same = timeless(again) == timeless(evaluation)
                print(f"| {count}, {kill} killed | {rate:,.0f} | {'same' if same else 'DIFFERENT'} |", flush=True)


def timeless(evaluation: Evaluation) -> Summary:
    """Return the scores without what was timed."""
    return replace(Summary.of(evaluation, name="awe"), wall_s=0.0, critical_path=NO_CALLS)


if __name__ == "__main__":
    run(main)
