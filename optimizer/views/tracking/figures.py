"""What MLflow shows of trials and tested policies: metrics and params, rounded for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ....env import Summary
from ....env.cost import TurnCost
from ....env.statistics import Estimate, estimate
from ....policies.policy import MemoryPolicy
from ....policies.space import effective, every_knob
from ...study import Trial

DECIMALS = 4
"""Of a score, a share or a correlation."""


def trial_name(trial: Trial) -> str:
    """Return what a trial's run is called: its number, who made it, and from which trial."""
    maker = trial.proposer or trial.kind.replace("_", " ")
    return f"{trial.number:03d} {maker}" + ("" if trial.parent is None else f" of {trial.parent}")


def trial_params(trial: Trial) -> dict[str, Any]:
    """Return how a trial came to be, and its policy's numbers by path."""
    made = {
        "generation": trial.generation,
        "kind": trial.kind,
        "proposer": trial.proposer or "-",
        "parent": "-" if trial.parent is None else trial.parent,
    }
    policy = trial.policy
    return made | ({"policy": "not valid"} if policy is None else {"policy": policy.label, **policy_params(policy)})


def trial_tags(trial: Trial) -> dict[str, str]:
    """Return what became of a trial, and why."""
    return {
        "verdict": trial.verdict,
        "decided_at": trial.decided_at,
        "reason": trial.reason,
        "change": trial.change,
    }


def trial_metrics(trial: Trial) -> dict[str, float]:
    """Return a trial's scores with their intervals, where it lost, and what it cost."""
    total, summary = trial.ledger.total, trial.summary
    figures = {"users_raced": len(trial.series), "forecast": rounded(trial.forecast)}
    if trial.finished_race:
        figures |= with_interval("train_score", estimate(list(trial.train.values())))
    figures |= with_interval("validation_score", estimate(list(trial.validation.values())))
    if summary is not None:
        figures |= _where_it_lost(summary) | _stored(summary) | per_turn(summary.per_turn)
    tokens = total.input_tokens + total.output_tokens
    return known(figures | {"calls": total.calls, "tokens": tokens, "cost_usd": total.cost_usd})


def tested_metrics(row: Summary, over_window: Estimate) -> dict[str, float]:
    """Return what the sealed test says of a policy."""
    figures = with_interval("memory_score", row.memory_score) | with_interval("over_window", over_window)
    figures |= with_interval("evidence_recall", row.evidence) | with_interval("reworded", row.reworded)
    for reader, score in row.by_reader.items():
        figures |= with_interval(f"by_reader/{reader}", score)
    return known(figures | _where_it_lost(row) | _stored(row) | per_turn(row.per_turn))


def with_interval(name: str, score: Estimate) -> dict[str, float]:
    """Return a score and the ends of its 95% interval, as metrics."""
    ends = {name: score.mean, f"{name}_low": score.low, f"{name}_high": score.high}
    return {key: rounded(value) for key, value in ends.items()}


def per_turn(cost: TurnCost | None) -> dict[str, float]:
    """Return what a turn of a deployed assistant costs, as metrics."""
    return {} if cost is None else {"turn/tokens": round(cost.tokens), "turn/calls": round(cost.calls, 2)}


def known(figures: Mapping[str, float | None]) -> dict[str, float]:
    """Return the figures that are known."""
    return {name: value for name, value in figures.items() if value is not None and not math.isnan(value)}


def rounded(value: float) -> float:
    """Return a figure as MLflow shows it; NaN stays."""
    return value if math.isnan(value) else round(value, DECIMALS)


def policy_params(policy: MemoryPolicy) -> dict[str, Any]:
    """Return a policy's numbers and structure by path, and its key; what it does not use is left out."""
    values = policy.values
    point = effective(values, every_knob())
    knobs = [knob for knob in every_knob() if not knob.slot and (knob.name in point or not knob.named)]
    params = {knob.path: values.get(knob.path, knob.default) for knob in knobs}
    return {path: value for path, value in params.items() if value is not None} | {"key": policy.key}


def _stored(summary: Summary) -> dict[str, float]:
    return {f"stored/{name}": rounded(figure.mean) for name, figure in summary.stored.items()}


def _where_it_lost(summary: Summary) -> dict[str, float]:
    shares = {f"share/{name}": rounded(value) for name, value in summary.shares.items()}
    return {"accuracy": rounded(summary.accuracy), "ceiling": rounded(summary.ceiling), **shares}
