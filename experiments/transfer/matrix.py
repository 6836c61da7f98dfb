"""Policies, each evolved on a track or a preset, scored on the sealed groups of every track.

python -m mnemotune.experiments.transfer.matrix OUT [NAME=best_policy.yaml ...]

Each track has its own budget, data and splits: those of its config. A policy that was evolved on a track with these
splits has not seen the groups that it is scored on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ...data.resources import resource
from ...data.task import tasks_of
from ...env import Evaluation, Evaluator
from ...env.statistics import Estimate, paired_difference
from ...env.summary import score_json
from ...env.track import most_calls
from ...optimizer.config import Config, load_config
from ...optimizer.models import open_models, track_of
from ...optimizer.search.allowance import splits_of
from ...optimizer.views.table import markdown_lines
from ...optimizer.workers import open_pool, runner_of
from ...policies.files import WINDOW, load_policy
from ...policies.policy import MemoryPolicy
from ..command import run

CONFIGS = {"dialogue": "quickstart", "codeqa": "codeqa", "research": "research", "tools": "tools"}
"""The config of each track."""
PRESETS = (WINDOW, "rag", "awe", "awi")


async def scored(config: Config, policies: Mapping[str, MemoryPolicy]) -> dict[str, Evaluation]:
    """Evaluate policies on the sealed groups of a track, within its budget."""
    track = track_of(config)
    splits = splits_of(config)
    tasks = tasks_of(splits.test)
    with open_models(config, folder=None) as opened:
        models = opened.dealt(splits.test)
        calls = most_calls(track, tasks, policies.values())
        pool = open_pool(config, models, folder=None, calls=calls, most=len(splits.test))
        async with nullcontext() if pool is None else aclosing(pool), aclosing(models.cast):
            evaluator = Evaluator(track, models.cast, runner=runner_of(pool, track, models.cast, config, budget=None))
            return {name: await evaluator.evaluate(policy, tasks) for name, policy in policies.items()}


def shown(score: Estimate) -> str:
    """Return a score with its interval."""
    return f"{score.mean:.3f} [{score.low:.3f}, {score.high:.3f}]"


def main(
    out: Annotated[Path, typer.Argument(help="The JSON file to write.")],
    evolved: Annotated[list[str] | None, typer.Argument(help="NAME=FILE of evolved policies.")] = None,
) -> None:
    """Score all policies on all tracks, over the floor and over the window."""
    policies = {name: load_policy(name) for name in PRESETS}
    policies |= {name: load_policy(file) for name, _, file in (given.partition("=") for given in evolved or [])}
    cells: dict[str, dict[str, dict[str, object]]] = {}
    rows = {name: [name] for name in policies}
    for track, name in CONFIGS.items():
        evaluations = asyncio.run(scored(load_config(Path(str(resource("configs", f"{name}.yaml")))), policies))
        window = evaluations[WINDOW].by_group
        cells[track] = {}
        for policy, evaluation in evaluations.items():
            over = paired_difference(evaluation.by_group, window)
            cells[track][policy] = {"score": score_json(evaluation.memory_score), "over_window": score_json(over)}
            rows[policy] += [shown(evaluation.memory_score), "" if policy == WINDOW else f"{over.mean:+.3f}"]
    columns = ["policy", *(column for track in CONFIGS for column in (track, "over the window"))]
    print("\n".join(markdown_lines(columns, rows.values())))
    out.write_text(json.dumps(cells, indent=1), encoding="utf-8")


if __name__ == "__main__":
    run(main)
