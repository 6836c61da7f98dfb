"""Rank held-out policies by forecasts, beside their on-policy evaluation: correlation, calls and wall time.

python -m mnemotune.experiments.memrm.ranking OUT [--model tiny] [--data generated:20@6006] [--policies NAME]...
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Scenario
from ...data.json_files import write_json
from ...env import DialogueTrack, Episode, Evaluator
from ...env.memrm.evaluation.metrics import bootstrap_samples, interval
from ...env.memrm.forecasting.ranking import spearman
from ...optimizer.proposers.population import Member, population
from ...optimizer.search.screen import ForecastModel, ReplayForecaster, load_forecast_model
from ...optimizer.views.table import markdown_lines
from ...policies.files import load_policy
from ...policies.lm import Metered
from ...policies.lm.embedded import EmbeddedModel
from ..command import run
from ..embedded_model.arms import cast

HEARD = (1, 2, 4)
"""Users whose recorded episodes a candidate hears."""
COLUMNS = (
    "users heard",
    "rank correlation",
    "calls of an evaluation, per call of a forecast",
    "time of an evaluation, per time of a forecast",
)


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
    measured = []
    for heard in HEARD:  # before the evaluation, which would leave texts read behind
        model = Metered(EmbeddedModel())
        players = replace(cast(), assistant=model, user=model)
        forecaster = ReplayForecaster(forecast_model, DialogueTrack(), users[:heard], replays, players)
        began = time.perf_counter()
        forecast = await forecaster.forecast(member.policy)
        measured.append((forecast, model.ledger.total.calls, time.perf_counter() - began))
    forecasts, forecast_calls, forecast_seconds = zip(*measured, strict=True)
    began = time.perf_counter()
    evaluation = await Evaluator(DialogueTrack(), cast()).evaluate(member.policy, users)
    seconds, calls, score = time.perf_counter() - began, evaluation.ledger.total.calls, evaluation.memory_score.mean
    label = member.policy.label
    return Compared(member.name, label, score, forecasts, calls, seconds, forecast_calls, forecast_seconds)


def table(rows: Sequence[Compared]) -> str:
    """Return a Markdown table: a row for each number of users heard."""
    return "\n".join([*markdown_lines(COLUMNS, (_cells(rows, i) for i in range(len(HEARD)))), ""])


def _cells(rows: Sequence[Compared], i: int) -> list[str]:
    pairs = np.array([(row.memory_score, row.forecasts[i]) for row in rows])
    low, high = interval([spearman(pairs[sample]) for sample in bootstrap_samples([row.name for row in rows])])
    calls = sum(row.calls for row in rows) / max(1, sum(row.forecast_calls[i] for row in rows))
    seconds = sum(row.seconds for row in rows) / sum(row.forecast_seconds[i] for row in rows)
    return [str(HEARD[i]), f"{spearman(pairs):.3f} [{low:.3f}, {high:.3f}]", f"{calls:.0f}", f"{seconds:.0f}"]


async def compare(
    users: Sequence[Scenario], members: Sequence[Member], forecast_model: ForecastModel
) -> list[Compared]:
    """Compare policy by policy; the recorded episodes are AWI's."""
    heard = users[: max(HEARD)]
    evaluation = await Evaluator(DialogueTrack(), cast()).evaluate(load_policy("awi"), heard)
    replays = {episode.task: episode for episode in evaluation.episodes}
    return [await compared(member, users, replays, forecast_model) for member in members]


def main(
    out: Path,
    model: str = "tiny",
    data: str = "generated:20@6006",
    policies: Annotated[list[str], typer.Option()] = ["random:24", "damaged:12"],  # noqa: B006 - never changed
    seed: int = 99,
) -> None:
    """Print the table, and write it with its rows into OUT."""
    members = population(policies, seed=seed)
    rows = asyncio.run(compare(load_scenarios(data), members, load_forecast_model(model)))
    write_json(out / "ranking.json", [asdict(row) for row in rows])
    (out / "ranking.md").write_text(table(rows), encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    run(main)
