"""A reward model that learns from what happens, on groups that it has not seen; and what a carried out step costs.

python -m mnemotune.experiments.memrm.executions OUT [--track swe]

Memories are damaged and the plan's next step is carried out (`memrm collect --executions`). In four folds of groups, a
small model learns from the other folds. What is finished in OUT is not done again.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import yaml

from ...data.task import Task
from ...env import Cast, Track
from ...env.memrm.collection.execution import execute, foreign_lines
from ...env.memrm.collection.labels import EpisodeLabels
from ...env.memrm.evaluation.quality import quality_on_rows
from ...env.memrm.model.scoring import load_memrm
from ...env.memrm.rows.row import Row, read_rows
from ...env.memrm.rows.splits import data_card_file
from ...env.outside import Outside
from ...policies.files import load_policy
from ...policies.lm import Ledger, Metered
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.prices import list_price
from ...policies.lm.providers import open_embedder
from ..command import run
from ..memgym.table import config_of
from .tiny import RECIPE, mnemotune

POLICIES = ("rag", "awe", "llm_summarizing", "adaptive_token_budget", "structured_summary")
EACH = 1
"""Policies of each task."""
FOLDS = 4
WINDOW = 1024
"""Tokens of a prompt: what commands and pages show is longer than what people say."""
TIMED = 3
"""Tasks whose forks are timed."""
LISTED = {"gpt-4.1-mini": "https://api.openai.com/v1", "claude-haiku-4-5": "https://api.anthropic.com/v1"}
"""Models whose list prices are told."""


def folds(rows: Sequence[Row]) -> list[list[str]]:
    """Deal the groups of rows to folds."""
    groups = sorted({row.group for row in rows})
    return [groups[fold::FOLDS] for fold in range(FOLDS)]


def scored(out: Path, file: Path, rows: Sequence[Row]) -> np.ndarray:
    """Return P(safe) of each row by a model that has seen no row of its group."""
    p_safe = np.full(len(rows), np.nan)
    for number, held in enumerate(folds(rows)):
        card, recipe, folder = out / f"fold-{number}.json", out / f"fold-{number}.yaml", out / f"fold-{number}"
        if not folder.is_dir():
            splits = {"seed": 0, "groups": held, "policies": [], "topics": []}
            card.write_text(json.dumps({"splits": splits}), encoding="utf-8")
            given = yaml.safe_load(RECIPE.read_text(encoding="utf-8")) | {"splits": str(card)}
            given |= {"held_out": 0.1, "window": WINDOW}
            recipe.write_text(yaml.safe_dump(given), encoding="utf-8")
            store = f"sqlite:///{out / 'mlflow.db'}"
            mnemotune("train", str(recipe), "--rows", str(file), "--out", str(folder), "--tracking", store)
        here = [place for place, row in enumerate(rows) if row.group in held]
        p_safe[here] = load_memrm(str(folder)).score([rows[place].event for place in here])
    return p_safe


async def timed(track: Track, tasks: Sequence[Task], tokens: int | None, embedder: str) -> tuple[float, Ledger, int]:
    """Return the seconds, the calls and the number of steps that were carried out once more."""
    model = Metered(EmbeddedModel())
    cast = Cast(model, model, open_embedder(embedder), tokens)
    foreign, forks, labels = foreign_lines(tasks), Outside(), list[EpisodeLabels]()
    began = time.perf_counter()
    for task in tasks[:TIMED]:
        rng, lines = random.Random(0), foreign[task.group]
        labels.append(await execute(track, task, load_policy("rag"), cast, forks=forks, foreign=lines, rng=rng))
    seconds = time.perf_counter() - began
    await forks.aclose()
    await cast.aclose()
    return seconds, model.ledger, sum(each.controls + len(each.rows) for each in labels)


def main(
    out: Annotated[Path, typer.Argument(help="A folder.")],
    track: Annotated[str, typer.Option(help="A track with a plan.")] = "swe",
    data: Annotated[str | None, typer.Option(help="Its tasks; the usual ones by default.")] = None,
) -> None:
    """Collect, learn and compare."""
    out.mkdir(parents=True, exist_ok=True)
    kind, config = config_of(track, data)
    source = config.data
    file = out / "rows.jsonl"
    if not file.is_file():
        given = ["--track", track, "--data", source, "--each", str(EACH), "--policies", *POLICIES]
        mnemotune("collect", "--executions", *given, "--out", str(file))
    rows = list(read_rows(file))
    executions = json.loads(data_card_file(file).read_bytes())["executions"]
    print(f"controls: {executions['controls']:,}, {executions['controls_safe']:,} of them SAFE\n")
    p_safe = scored(out, file, rows)
    quality = quality_on_rows(p_safe, rows)
    low, high = quality.intervals["auroc"]
    harmful = f"{quality.harmful:,} of them HARMFUL, {quality.unscored:,} not scored"
    print(f"{quality.n:,} writes of {quality.clusters} groups, {harmful}")
    print("\n| AUROC on groups that were not learned from | |\n|---|---|")
    print(f"| MemRM, small | {quality.figures['auroc']:.3f} [{low:.3f}, {high:.3f}] |")
    for name, auroc in quality.baselines.items():
        print(f"| {name} | {auroc:.3f} |")
    seconds, ledger, steps = asyncio.run(timed(kind, kind.load(source), config.context_tokens, config.embedder))
    model, events = load_memrm(str(out / "fold-0")), [row.event for row in rows]
    began = time.perf_counter()
    model.score(events)
    read = (time.perf_counter() - began) / len(events)
    total = ledger.total
    print(f"\n| | a step carried out | a write read |\n|---|---|---|\n| seconds | {seconds / steps:.3f} | {read:.5f} |")
    print(f"| calls of the assistant's model | {total.calls / steps:.2f} | 0 |")
    for name, url in LISTED.items():
        price = list_price(name, url)
        if price is not None:
            cost = price.cost(total.input_tokens, total.output_tokens) / steps
            print(f"| dollars, {name} | {cost:.6f} | 0 |")


if __name__ == "__main__":
    run(main)
