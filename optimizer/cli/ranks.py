"""``mnemotune ranks``: on-policy against off-policy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...data.task import Task, grouped
from ...env import Episode, Evaluation, Evaluator, Track
from ...env.episode import complete
from ...policies.files import WINDOW, load_policy
from ...policies.policy import MemoryPolicy
from ..config import ConfigError
from ..models import Models, embedder_remark, open_models, track_of
from ..search.ranks import Ranked, rank
from ..views.table import LONGEST_NAME, heading, number, short, with_interval
from .evaluate import (
    ContextTokensOption,
    EmbedderOption,
    ModelOption,
    TrackOption,
    WindowOption,
    load_tasks,
    settings_of,
)

Ways = tuple[dict[str, Evaluation], dict[str, Evaluation]]


def ranks_command(
    policies: Annotated[list[str], typer.Argument(help="Presets or policy files, two or more.")],
    data: Annotated[str, typer.Option("--data", help="A file, a folder, a bundled set, or generated:N@SEED.")] = "base",
    track: TrackOption = None,
    context_tokens: ContextTokensOption = None,
    model: ModelOption = None,
    embedder: EmbedderOption = None,
    config: Annotated[Path | None, typer.Option("--config", help="A config for endpoint, rounds, templates.")] = None,
    window: WindowOption = True,
    off_policy: Annotated[
        Path | None, typer.Option("--off-policy", help="Recorded talks; without, the first policy's are replayed.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for the result and the cache.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Rank policies by their own talks, and by the same recorded talks for all."""
    if len(set(policies)) < 2:
        raise ConfigError("ranks: name two or more different policies, for example `mnemotune ranks native rag awi`")
    settings = settings_of(config, model=model, embedder=embedder, track=track, context_tokens=context_tokens)
    chosen = {name: load_policy(name, templates=settings.templates) for name in policies}
    reference = load_policy(WINDOW, templates=settings.templates)
    chosen |= {WINDOW: reference} if window and reference not in chosen.values() else {}
    kind = track_of(settings)
    tasks = load_tasks(kind, data, None)
    recorded = None if off_policy is None else kind.replays(off_policy)
    console = Console(stderr=True)
    with open_models(settings, folder=out) as models, console.status(""):
        on, off = asyncio.run(_both_ways(kind, models, chosen, tasks, recorded))
    ranked = rank(on, off)
    replayed = f"{policies[0]}'s talks" if off_policy is None else str(off_policy)
    result = {
        "data": data,
        "model": settings.model,
        "embedder": settings.embedder,
        "context_tokens": settings.context_tokens,
        "replayed": replayed,
        "groups": len(grouped(tasks)),
    }
    result["remark"] = embedder_remark(settings) if any(policy.searches for policy in chosen.values()) else None
    values = result | {"policies": [row.as_json() for row in ranked]}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "ranks.json").write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(values, ensure_ascii=False))
    else:
        tokens = settings.context_tokens
        title = heading(len(grouped(tasks)), kind.noun, model=settings.model, context_tokens=tokens)
        Console().print(_table(ranked, title=f"{title}; off-policy: {replayed} replayed"))
    if result["remark"]:
        console.print(result["remark"], style="yellow", highlight=False, markup=False)


async def _both_ways(
    track: Track,
    models: Models,
    policies: Mapping[str, MemoryPolicy],
    tasks: Sequence[Task],
    recorded: Mapping[str, Episode] | None,
) -> Ways:
    evaluator = Evaluator(track, models.cast)
    try:
        on = {name: await evaluator.evaluate(policy, tasks) for name, policy in policies.items()}
        replays = recorded if recorded is not None else complete(next(iter(on.values())).episodes)
        heard = [task for task in tasks if task.id in replays]
        off = {name: await evaluator.evaluate(p, heard, replays=replays) for name, p in policies.items()}
    finally:
        await models.aclose()
    return on, off


def _table(ranked: Sequence[Ranked], *, title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("policy", "on-policy", "rank", "off-policy", "rank", "off - on"):
        table.add_column(column, justify="left" if column in {"policy", "off - on"} else "right", no_wrap=True)
    for row in ranked:
        name, gain = short(row.policy, LONGEST_NAME), row.difference
        scores = number(row.on_policy.mean), str(row.on_rank), number(row.off_policy.mean), str(row.off_rank)
        table.add_row(Text(name), *scores, with_interval(gain))
    return table
