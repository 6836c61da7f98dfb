"""``mnemotune estimate``: what a run will spend."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..config import load_config
from ..models import priced, track_of


def estimate_command(
    config: Annotated[Path, typer.Argument(help="A config, for example configs/quickstart.yaml.")],
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, dots in the key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Say what `evolve` will spend, before it spends anything."""
    from ..search.allowance import splits_of  # imported late: Optuna takes a while that other commands do not need
    from ..search.estimate import estimate
    from ..search.rehearsal import rehearse
    from ..views.estimate import show_estimate

    chosen = priced(load_config(config, overrides=settings or []))
    splits = splits_of(chosen)
    console = Console(stderr=True)
    with console.status(f"playing a few policies on one train {track_of(chosen).noun} with the embedded model"):
        found = estimate(chosen, splits, asyncio.run(rehearse(chosen, splits, clock=time.process_time)))
    if as_json:
        typer.echo(json.dumps({"config": str(config), "model": chosen.model, **found.as_json()}, ensure_ascii=False))
    else:
        show_estimate(found, chosen, Console())
