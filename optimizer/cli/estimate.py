"""``mnemotune estimate``: what a run will spend."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...data.task import Task
from ...policies.assistant import ContextUse
from ..config import Config, load_config
from ..models import open_models, priced, track_of


def estimate_command(
    config: Annotated[Path, typer.Argument(help="A config, for example configs/quickstart.yaml.")],
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, dots in the key.")] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the config's own model how much each preset shows: this spends calls.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Say what `evolve` will spend, before it spends anything."""
    from ..search.allowance import splits_of  # imported late: Optuna takes a while that other commands do not need
    from ..search.estimate import estimate
    from ..search.rehearsal import rehearse
    from ..views.estimate import show_estimate, show_shown

    chosen = priced(load_config(config, overrides=settings or []))
    splits = splits_of(chosen)
    console = Console(stderr=True)
    with console.status(f"playing a few policies on one train {track_of(chosen).noun} with the embedded model"):
        spending = estimate(chosen, splits, asyncio.run(rehearse(chosen, splits, clock=time.process_time)))
    model = chosen.model if ask else "embedded"
    with console.status(f"asking {model} how much each preset shows"):
        shown = asyncio.run(_shown(chosen, splits.train[0].tasks[0], ask=ask))
    if as_json:
        tokens = {name: {"mean": round(use.mean_tokens, 1), "most": use.most_tokens} for name, use in shown.items()}
        values = {
            "config": str(config),
            "model": chosen.model,
            **spending.as_json(),
            "shown": tokens,
            "shown_by": model,
        }
        typer.echo(json.dumps(values, ensure_ascii=False))
    else:
        show_estimate(spending, chosen, Console())
        show_shown(shown, chosen, Console(), model=model)


async def _shown(config: Config, task: Task, *, ask: bool) -> dict[str, ContextUse]:
    from ..search.rehearsal import free_cast
    from ..search.sealed import SEED
    from ..search.shown import ASKED_STAGES, shown_by

    policies, track = config.compared | {SEED: config.seed_policy}, track_of(config)
    if not ask:
        return await shown_by(policies, track, task, free_cast(config))
    with open_models(config, folder=None) as models:
        try:
            return await shown_by(policies, track, task, models.cast, stages=ASKED_STAGES)
        finally:
            await models.aclose()
