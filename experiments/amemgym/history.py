"""Memory and CPU of the client when a native assistant's talk gets long.

python -m mnemotune.experiments.amemgym.history [PERIODS]

Replies have 2,400 characters, as real ones do. Each length runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from typing import Annotated

from typer import Argument

from ...data import Scenario
from ...data.dialogue.generator import generate_scenarios
from ...policies import load_policy
from ..command import run
from .client import evaluator_at
from .server import running

PORT = 8128
LENGTHS = (11, 22, 44)
REPLY = 2400


def lengthened(scenario: Scenario, periods: int) -> Scenario:
    """Return a life whose later periods come again and again."""
    first, *later = scenario.periods
    more = [later[p % len(later)] for p in range(periods - 1)]
    return scenario.model_copy(update={"periods": [first, *more]})


async def measure(periods: int) -> str:
    """Return a row of the table."""
    (scenario,) = generate_scenarios(users=1, seed=9)
    async with evaluator_at(f"http://127.0.0.1:{PORT}/v1", concurrency=16) as evaluator:
        await evaluator.evaluate(load_policy("native"), [lengthened(scenario, 2)])  # everything is imported now
        before = resource.getrusage(resource.RUSAGE_SELF)
        evaluation = await evaluator.evaluate(load_policy("native"), [lengthened(scenario, periods)])
        after = resource.getrusage(resource.RUSAGE_SELF)
    heard = [messages for stage in evaluation.episodes[0].stages for messages in stage.heard]
    said = sum(len(message.content) for messages in heard for message in messages)
    calls = evaluation.ledger.total.calls
    memory = (after.ru_maxrss - before.ru_maxrss) / 1024
    program, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return f"| {periods} | {calls:,} | {said / 1e6:.2f} | {memory:.1f} | {program:.2f} | {system:.2f} |"


def main(periods: Annotated[int | None, Argument(help="Of this length alone.", min=1)] = None) -> None:
    """Print a table, or one row of it."""
    if periods is not None:
        print(asyncio.run(measure(periods)))
        return
    print("| periods | calls | transcript, M characters | memory above start, MiB | CPU s, program | CPU s, system |")
    print("|---|---|---|---|---|---|", flush=True)
    with running(PORT, "--length", str(REPLY)):
        for length in LENGTHS:
            subprocess.run([sys.executable, "-m", "mnemotune.experiments.amemgym.history", str(length)], check=True)


if __name__ == "__main__":
    run(main)
