"""Compare optimizers of memory policies at equal calls, on users that none of them saw.

python -m mnemotune.experiments.optimizers.compare OUT [--seeds N] [--calls N] [NAME...]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from ...data.load import load_scenarios
from ...data.resources import resource
from ...env import Evaluator
from ...env.statistics import Estimate, estimate
from ...optimizer.config import load_config
from ...optimizer.models import open_models
from ...optimizer.outcome import Outcome, open_run
from ...optimizer.run import evolve

PROBLEM = resource("experiments", "optimizers", "problem.yaml")
UNSEEN = "generated:48@9001"
"""Users of whom no search has one: finalists are scored on them."""
OURS = "mnemotune"
GREEDY = ("search.racing=false", "search.acceptance=train")
"""What an optimizer without statistics does: it plays each candidate to the end, and the best mean wins."""
OPTIMIZERS: Mapping[str, Sequence[str]] = {
    OURS: (),
    "tpe": (*GREEDY, "search.proposers=[tpe]"),
    "random": (*GREEDY, "search.proposers=[random]"),
    "amemgym": (*GREEDY, "search.proposers=[amemgym]"),
    "gepa": (*GREEDY, "search.proposers=[gepa]"),
}
THIRD = "mnemotune, a third of the calls"


def run(name: str, seed: int, calls: int, folder: Path) -> dict[str, Any]:
    """Run one search, or go on with it, and score its finalist on the unseen users."""
    result = folder / "unseen.json"
    if result.is_file():
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return found
    settings = OPTIMIZERS[OURS if name == THIRD else name]
    budget = calls // 3 if name == THIRD else calls
    overrides = [*settings, f"search.seed={seed}", f"search.budget.calls={budget}"]
    outcome = evolve(load_config(str(PROBLEM), overrides=overrides), folder, console=Console(quiet=True))
    found = {"name": name, "seed": seed, **_told(outcome), "by_user": _score(folder)}
    result.write_text(json.dumps(found), encoding="utf-8")
    return found


def _told(outcome: Outcome) -> dict[str, Any]:
    trials = outcome.study.trials
    return {
        "calls": outcome.consumed.calls,
        "seconds": outcome.consumed.seconds,
        "trials": len(trials) - 1,
        "accepted": sum(trial.accepted for trial in trials[1:]),
        "policy": outcome.study.best.policy.label if outcome.study.best.policy else "",
    }


def _score(folder: Path) -> dict[str, float]:
    """Return the finalist's memory score by unseen user."""
    outcome = open_run(folder)
    policy = outcome.study.best.policy or outcome.config.seed_policy
    with open_models(outcome.config, folder=None) as models:
        evaluation = asyncio.run(Evaluator(models.cast).evaluate(policy, load_scenarios(UNSEEN)))
    return dict(evaluation.by_user)


def mean_by_user(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return each user's mean over the runs of one optimizer."""
    users = runs[0]["by_user"]
    return {user: statistics.fmean(run["by_user"][user] for run in runs) for user in users}


def difference(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> tuple[Estimate, Estimate]:
    """Return how far one optimizer's finalists are above another's: over users, and over seeds.

    Both intervals are of paired differences; the first takes users as drawn and seeds as given, the second turns it
    round.
    """
    a, b = mean_by_user(ours), mean_by_user(theirs)
    of_seed = {run["seed"]: statistics.fmean(run["by_user"].values()) for run in theirs}
    gains = [statistics.fmean(run["by_user"].values()) - of_seed[run["seed"]] for run in ours if run["seed"] in of_seed]
    return estimate([a[user] - b[user] for user in a]), estimate(gains)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", default=[*OPTIMIZERS, THIRD])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=240_000)
    given = parser.parse_args()
    places = [(name, seed, given.out / f"{_slug(name)}-{seed}") for seed in range(given.seeds) for name in given.names]
    with ProcessPoolExecutor(os.cpu_count(), max_tasks_per_child=1) as executor:
        running = [executor.submit(run, name, seed, given.calls, folder) for name, seed, folder in places]
        found = [one.result() for one in running]
    runs = {name: [one for one in found if one["name"] == name] for name in given.names}
    print("| optimizer | memory score | trials | calls | seconds | mnemotune - it, over users | over seeds |")
    print("|---|---|---|---|---|---|---|")
    for name, of_it in runs.items():
        score = estimate(list(mean_by_user(of_it).values()))
        over = ["", ""] if name == OURS or OURS not in runs else [_interval(d) for d in difference(runs[OURS], of_it)]
        trials, calls, seconds = (statistics.fmean(one[key] for one in of_it) for key in ("trials", "calls", "seconds"))
        print(f"| {name} | {_interval(score)} | {trials:.0f} | {calls:,.0f} | {seconds:.0f} | {over[0]} | {over[1]} |")


def _slug(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


def _interval(value: Estimate) -> str:
    return f"{value.mean:.3f}" if math.isnan(value.low) else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


if __name__ == "__main__":
    main()
