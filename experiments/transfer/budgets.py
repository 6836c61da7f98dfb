"""Score against the context budget: presets, window and evolved policies on the same groups, within 250 tokens to none.

python -m mnemotune.experiments.transfer.budgets OUT [NAME=best_policy.yaml ...] [--data SOURCE] [--track NAME]

Writes OUT/front.json, OUT/front.md and OUT/front.svg. The groups are none of a search's: a source of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from ...data.task import grouped
from ...env import Evaluation, Evaluator
from ...env.statistics import paired_difference
from ...env.summary import score_json
from ...env.track import most_calls
from ...optimizer.config import Config, parse_config
from ...optimizer.models import open_models, track_of
from ...optimizer.views.table import markdown_lines, with_interval
from ...optimizer.workers import open_pool, runner_of
from ...policies.files import WINDOW, load_policy
from ...policies.policy import MemoryPolicy
from ..command import run

BUDGETS = (250, 500, 1000, 2000, None)
"""Context tokens; None is no limit, where the window is the whole talk."""
APART = 0.06
"""Between two policies' points at one budget, as a share of the way to the next budget."""
PRESETS = (WINDOW, "rag", "awe", "awi")
Front = Mapping[int | None, Mapping[str, Evaluation]]
"""Evaluations by budget and policy, all of the same groups."""


async def front_of(config: Config, policies: Mapping[str, MemoryPolicy], budgets: Sequence[int | None]) -> Front:
    """Evaluate policies on a config's data within each budget."""
    track = track_of(config)
    tasks = track.load(config.data)
    found: dict[int | None, dict[str, Evaluation]] = {}
    with open_models(config, folder=None) as opened:
        models = opened.dealt(grouped(tasks))
        calls = len(budgets) * most_calls(track, tasks, policies.values())
        for budget in budgets:
            within = replace(models, cast=replace(models.cast, context_tokens=budget))
            pool = open_pool(config, within, folder=None, calls=calls, most=len(tasks))
            async with nullcontext() if pool is None else aclosing(pool):
                runner = runner_of(pool, track, within.cast, config, budget=None)
                evaluator = Evaluator(track, within.cast, runner=runner)
                found[budget] = {name: await evaluator.evaluate(policy, tasks) for name, policy in policies.items()}
        await models.cast.aclose()
    return found


def table(front: Front) -> str:
    """Return a Markdown table: a row a policy, a column a budget; in brackets 95% intervals over groups."""
    names = list(next(iter(front.values())))
    rows = [[name, *(with_interval(found[name].memory_score) for found in front.values())] for name in names]
    return "\n".join(markdown_lines(["policy", *map(_title, front)], rows))


def figure(front: Front) -> Figure:
    """Draw each policy's score against the budget, with its interval; the last place is no limit."""
    drawn = Figure(figsize=(7, 4), layout="constrained")
    axes = drawn.subplots()
    for n, name in enumerate(next(iter(front.values()))):
        scores = [found[name].memory_score for found in front.values()]
        places = [place + n * APART for place in range(len(front))]
        lengths = [[score.mean - score.low for score in scores], [score.high - score.mean for score in scores]]
        axes.errorbar(places, [score.mean for score in scores], yerr=lengths, marker="o", markersize=4, label=name)
    axes.set_xticks(range(len(front)), [_title(budget) for budget in front])
    axes.set_xlabel("context tokens")
    axes.set_ylabel("memory score")
    axes.spines[["top", "right"]].set_visible(False)
    drawn.legend(loc="outside right upper", frameon=False)
    return drawn


def _title(budget: int | None) -> str:
    return "no limit" if budget is None else f"{budget:,}"


def _json(front: Front) -> list[dict[str, object]]:
    return [
        {
            "policy": name,
            "context_tokens": budget,
            "score": score_json(evaluation.memory_score),
            "over_window": score_json(paired_difference(evaluation.by_group, found[WINDOW].by_group)),
        }
        for budget, found in front.items()
        for name, evaluation in found.items()
    ]


def main(
    out: Annotated[Path, typer.Argument(help="The folder to write to.")],
    evolved: Annotated[list[str] | None, typer.Argument(help="NAME=FILE of evolved policies.")] = None,
    data: Annotated[str, typer.Option(help="The groups, none of which a search may have seen.")] = "base",
    track: Annotated[str, typer.Option(help="The track.")] = "dialogue",
) -> None:
    """Score all policies within all budgets."""
    policies = {name: load_policy(name) for name in PRESETS}
    policies |= {name: load_policy(file) for name, _, file in (given.partition("=") for given in evolved or [])}
    unused = {"splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": WINDOW}
    config = parse_config(json.dumps({"track": track, "data": data}), where="the budgets' config", defaults=unused)
    front = asyncio.run(front_of(config, policies, BUDGETS))
    out.mkdir(parents=True, exist_ok=True)
    (out / "front.json").write_text(json.dumps(_json(front), indent=1), encoding="utf-8")
    (out / "front.md").write_text(table(front) + "\n", encoding="utf-8")
    FigureCanvasSVG(figure(front)).print_svg(str(out / "front.svg"), metadata={"Date": None})
    print(table(front))


if __name__ == "__main__":
    run(main)
