"""Rank held-out policies by forecasts, beside their on-policy evaluation: correlation, calls and wall time.

python -m mnemotune.experiments.memrm.ranking OUT [--model tiny] [--data generated:20@6006] [--policies NAME...]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Scenario
from ...env import DialogueTrack, Episode, Evaluator
from ...env.memrm.evaluation.metrics import bootstrap_samples, interval
from ...env.memrm.forecasting.ranking import spearman
from ...optimizer.proposers.population import Member, population
from ...optimizer.search.screen import ForecastModel, ReplayForecaster, load_forecast_model
from ...policies.files import load_policy
from ...policies.lm.budget import Metered
from ...policies.lm.embedded import EmbeddedModel
from ..embedded_model.arms import cast

HEARD = (1, 2, 4)
"""Users whose recorded episodes a candidate hears."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One policy: its evaluation with all users, and its forecasts from the episodes of a few, in order."""

    name: str
    policy: str
    memory_score: float
    forecasts: tuple[float, ...]
    """For each of ``HEARD``."""
    calls: int
    seconds: float
    forecast_calls: tuple[int, ...]
    forecast_seconds: tuple[float, ...]


async def compared(
    member: Member, users: Sequence[Scenario], replays: dict[str, Episode], forecast_model: ForecastModel
) -> Compared:
    """Evaluate a policy, and forecast it."""
    forecasts, calls, forecast_seconds = [], [], []
    for heard in HEARD:  # before the evaluation, which would leave texts read behind
        model = Metered(EmbeddedModel())
        players = replace(cast(), assistant=model, user=model)
        forecaster = ReplayForecaster(forecast_model, DialogueTrack(), users[:heard], replays, players)
        began = time.perf_counter()
        forecasts.append(await forecaster.forecast(member.policy))
        forecast_seconds.append(time.perf_counter() - began)
        calls.append(model.ledger.total.calls)
    began = time.perf_counter()
    evaluation = await Evaluator(DialogueTrack(), cast()).evaluate(member.policy, users)
    seconds = time.perf_counter() - began
    return Compared(
        member.name,
        member.policy.label,
        evaluation.memory_score.mean,
        tuple(forecasts),
        evaluation.ledger.total.calls,
        seconds,
        tuple(calls),
        tuple(forecast_seconds),
    )


def table(rows: Sequence[Compared]) -> str:
    """Return a Markdown table: a row for each number of users heard."""
    lines = [
        "| users heard | rank correlation | calls of an evaluation, per call of a forecast | time of an evaluation, "
        "per time of a forecast |",
        "|---|---|---|---|",
    ]
    for i, heard in enumerate(HEARD):
        pairs = np.array([(row.memory_score, row.forecasts[i]) for row in rows])
        samples = [spearman(pairs[sample]) for sample in bootstrap_samples([row.name for row in rows])]
        low, high = interval(samples)
        calls = sum(row.calls for row in rows) / max(1, sum(row.forecast_calls[i] for row in rows))
        seconds = sum(row.seconds for row in rows) / sum(row.forecast_seconds[i] for row in rows)
        lines.append(f"| {heard} | {spearman(pairs):.3f} [{low:.3f}, {high:.3f}] | {calls:.0f} | {seconds:.0f} |")
    return "\n".join(lines) + "\n"


async def run(users: Sequence[Scenario], members: Sequence[Member], forecast_model: ForecastModel) -> list[Compared]:
    """Compare policy by policy; the recorded episodes are AWI's."""
    heard = users[: max(HEARD)]
    evaluation = await Evaluator(DialogueTrack(), cast()).evaluate(load_policy("awi"), heard)
    replays = {episode.task: episode for episode in evaluation.episodes}
    return [await compared(member, users, replays, forecast_model) for member in members]


def main() -> None:
    """Print the table, and write it with its rows into OUT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--data", default="generated:20@6006")
    parser.add_argument("--policies", nargs="+", default=["random:24", "damaged:12"])
    parser.add_argument("--seed", type=int, default=99)
    given = parser.parse_args()
    members = population(given.policies, seed=given.seed)
    rows = asyncio.run(run(load_scenarios(given.data), members, load_forecast_model(given.model)))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "ranking.json").write_text(
        json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8"
    )
    (given.out / "ranking.md").write_text(table(rows), encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
