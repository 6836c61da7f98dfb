"""How fast the embedded model is: whole arms, and one call as the talk before it grows.

python -m mnemotune.experiments.embedded_model.speed [DATA]
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from statistics import median
from typing import Annotated

from typer import Argument

from ...data.cores import usable_cores
from ...data.dialogue.generator import generate_scenarios
from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Scenario
from ...data.dialogue.sizes import Shape
from ...env import DialogueTrack, Evaluation, Evaluator
from ...env.dialogue.protocol import Protocol, probe_prompt
from ...env.runner import MOST_UNDER_WAY
from ...env.workers import Pool, processes
from ...optimizer.workers import given
from ...policies.files import load_policy
from ...policies.lm.base import Message, Request
from ...policies.lm.embedded import EmbeddedModel
from ...policies.policy import MemoryPolicy
from ..command import run
from .arms import ORDER, cast

REPEATS = 5


def arms(data: str) -> None:
    """Print a row for each arm, with upper bound and diagnosis."""
    print("| policy | users | calls | processes | wall s | calls a second |\n|---|---|---|---|---|---|")
    scenarios = load_scenarios(data)
    cores = usable_cores()
    for name in ORDER:
        start = time.monotonic()
        evaluation = asyncio.run(evaluated(load_policy(name), scenarios, workers=cores))
        calls, wall = evaluation.ledger.total.calls, time.monotonic() - start
        print(f"| {name} | {len(scenarios)} | {calls:,} | {cores} | {wall:.1f} | {calls / wall:,.0f} |", flush=True)


async def evaluated(policy: MemoryPolicy, scenarios: Sequence[Scenario], *, workers: int) -> Evaluation:
    """Evaluate a policy in so many processes."""
    track, players = DialogueTrack(), cast()
    start = processes(partial(given, track, players), most=MOST_UNDER_WAY)
    async with aclosing(Pool(start, workers=workers, each=1)) as pool:
        return await Evaluator(track, players, runner=pool.runner(track, budget=None)).evaluate(policy, scenarios)


def growth() -> None:
    """Print what a probe costs after ever longer talks; each talk is read for the first time."""
    print("\n| messages | characters | ms a call | microseconds a message |\n|---|---|---|---|")
    (scenario,) = generate_scenarios(users=1, seed=3, shape=Shape(changed_periods=43, changes_per_state=20))
    said = [session.query for period in scenario.periods for session in period.sessions]
    prompt = Message("user", probe_prompt(Protocol().templates.probe, scenario.qas[0], scenario))
    for messages in (25, 50, 100, 200, 400, 800):
        taken = []
        for repeat in range(REPEATS):
            talk = [Message("user", f"{said[i % len(said)]} That was {repeat} and {i}.") for i in range(messages)]
            request = Request((*talk, prompt), role="probe")
            start = time.perf_counter()
            asyncio.run(EmbeddedModel().complete(request))
            taken.append(time.perf_counter() - start)
        size, cost = sum(len(message.content) for message in talk), median(taken)
        print(f"| {messages} | {size:,} | {cost * 1e3:.2f} | {cost / messages * 1e6:.0f} |", flush=True)


def main(data: Annotated[str, Argument(help="The users of the arms.")] = "base") -> None:
    """Print both tables."""
    arms(data)
    growth()


if __name__ == "__main__":
    run(main)
