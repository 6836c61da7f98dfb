"""How near an evaluation comes to its critical path, beside a serial run of the same calls.

python -m mnemotune.experiments.amemgym.speed

A local server answers every call after 50 ms. The critical path is the longest chain of calls each of which needs the
answer of the one before. Serial means one call at a time, which is how AMemGym's released code asks.
"""

from __future__ import annotations

import asyncio
import time

from ...data.dialogue.generator import generate_scenarios
from ...env import Evaluation
from ...policies import load_policy
from ..command import run
from .client import evaluator_at
from .server import running

LATENCY = 0.05
CONCURRENCY = 64


async def evaluate(url: str, policy: str, users: int, concurrency: int) -> tuple[Evaluation, float]:
    """Return an evaluation of generated users, and the CPU seconds of this process."""
    scenarios = generate_scenarios(users=users, seed=9)
    start = time.process_time()
    async with evaluator_at(url, concurrency=concurrency) as evaluator:
        evaluation = await evaluator.evaluate(load_policy(policy), scenarios)
    return evaluation, time.process_time() - start


def main() -> None:
    """Print a table."""
    columns = ("policy", "users", "calls", "wall s", "critical path, calls", "wall / path", "serial s", "CPU ms a call")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    with running(8127, "--latency", str(LATENCY)) as url:
        for policy in ("native", "awi"):
            serial, _ = asyncio.run(evaluate(url, policy, 1, 1))
            a_call = serial.wall_s / serial.ledger.total.calls
            for users in (4, 20):
                evaluation, cpu = asyncio.run(evaluate(url, policy, users, CONCURRENCY))
                calls, path = evaluation.ledger.total.calls, evaluation.critical_path.calls
                print(
                    f"| {policy} | {users} | {calls:,} | {evaluation.wall_s:.2f} | {path} | "
                    f"{evaluation.wall_s / (path * LATENCY):.3f} | {calls * a_call:.0f} | {cpu / calls * 1e3:.2f} |",
                    flush=True,
                )
            print(f"  ({policy}: one user, one call at a time: {serial.wall_s:.1f} s, {a_call * 1e3:.1f} ms a call)")


if __name__ == "__main__":
    run(main)
