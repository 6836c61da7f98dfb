"""How calls a second grow with workers that ask a server with a fixed latency, and what killing workers changes.

python -m mnemotune.experiments.reliability.scaling [--runner ray] [--workers 1,2,4,8] [--kill 2]

Each worker has 16 calls in flight. The server answers the same to all; what counts is how many it answers.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
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

LATENCY_SECONDS = 0.2
IN_FLIGHT = 16
USERS_A_WORKER = 24
REPLY = {"choices": [{"message": {"role": "assistant", "content": '{"answer": 1}'}, "finish_reason": "stop"}],
         "usage": {"prompt_tokens": 100, "completion_tokens": 5}}  # fmt: skip


class SlowServer(asyncio.Protocol):
    """Answers every request after the same time."""

    def __init__(self, answered: Any) -> None:
        """Count answers in ``answered``, which other processes see."""
        self.answered = answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a connection."""
        self.transport = transport
        self.received = bytearray()

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.received[:end]).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
            if len(self.received) < end + 4 + length:
                return
            del self.received[: end + 4 + length]
            asyncio.get_running_loop().call_later(LATENCY_SECONDS, self._answer)

    def _answer(self) -> None:
        content = json.dumps(REPLY).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        self.answered.value += 1
        self.transport.write(head.encode() + content)  # type: ignore[attr-defined]


def serve(answered: Any, port: Any) -> None:
    """Serve until the process is ended; write the port down."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: SlowServer(answered), "127.0.0.1", 0)
        port.value = server.sockets[0].getsockname()[1]
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def slow_server() -> Iterator[tuple[str, Any]]:
    """Serve in a process of its own; yield the base URL and the number of answers."""
    context = multiprocessing.get_context("spawn")
    answered, port = context.Value("L", 0, lock=False), context.Value("i", 0, lock=False)
    process = context.Process(target=serve, args=(answered, port), daemon=True)
    process.start()
    while not port.value:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port.value}/v1", answered
    finally:
        process.kill()


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
    with slow_server() as (url, answered):
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
