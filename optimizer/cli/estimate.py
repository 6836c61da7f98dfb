"""``mnemotune estimate``: what a run will spend."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from . import options
from .output import print_json

if TYPE_CHECKING:
    from ...data import Splits
    from ...data.task import Task
    from ...policies.assistant import ContextUse
    from ..config import Config


def estimate_command(
    config: Annotated[Path, typer.Argument(help="A config, for example configs/quickstart.yaml.")],
    settings: options.Set = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the config's own model how much each preset shows: this spends calls.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Say what `evolve` will spend, before it spends anything.

    Example: mnemotune estimate configs/quickstart.yaml
    """
    from ..config import load_config
    from ..models import priced
    from ..search.allowance import splits_of  # imported late: Optuna takes a while that other commands do not need

    chosen = priced(load_config(config, overrides=settings or []))
    say_spending(chosen, splits_of(chosen), name=str(config), ask=ask, as_json=as_json)


def say_spending(chosen: Config, splits: Splits, *, name: str, ask: bool, as_json: bool) -> None:
    """Print what a run of a config will spend, and how much each policy shows."""
    from ..models import track_of
    from ..search.estimate import estimate
    from ..search.rehearsal import STAGES_WITH_ASK, rehearse
    from ..views.estimate import show_context_use, show_estimate

    track, model = track_of(chosen), chosen.model if ask else "embedded"
    console = Console(stderr=True)
    with console.status(f"playing a few policies on one train {track.noun} with the embedded model"):
        spending = estimate(chosen, splits, asyncio.run(rehearse(chosen, splits, clock=time.process_time)))
    with console.status(f"asking {model} how much each preset shows"):
        uses, calls = _context_uses(chosen, splits.train[0].tasks[0], ask=ask)
    played = f"the first {STAGES_WITH_ASK} {track.stage_noun}s of one" if ask else "one"
    source = f"{played} train {track.noun}" + (f", {calls:,} calls" if ask else "")
    if as_json:
        tokens = {name: {"mean": round(use.mean_tokens, 1), "most": use.most_tokens} for name, use in uses.items()}
        values = {"config": name, "model": chosen.model, **spending.as_json()}
        print_json({**values, "context_use": tokens, "context_use_model": model})
    else:
        show_estimate(spending, chosen, Console())
        show_context_use(uses, chosen, Console(), model=model, source=source)


def _context_uses(config: Config, task: Task, *, ask: bool) -> tuple[dict[str, ContextUse], int]:
    """Return what each policy shows, and the calls that this took of a model that was to be asked."""
    from ...policies.files import WINDOW, load_policy
    from ...policies.lm import Budget, Limits
    from ..models import open_models, track_of
    from ..search.rehearsal import STAGES_WITH_ASK, context_use_of, free_cast
    from ..search.sealed import SEED
    from .common import run_with

    presets = {name: load_policy(name, templates=config.templates) for name in (WINDOW, "rag", "awe", "awi")}
    policies, track = presets | config.compared | {SEED: config.seed_policy}, track_of(config)
    if not ask:
        return asyncio.run(context_use_of(policies, track, task, free_cast(config))), 0
    with open_models(config, folder=None) as models:
        metered = models.within(Budget(Limits(**config.search.budget.model_dump())))
        work = context_use_of(policies, track, task, metered.cast, stages=STAGES_WITH_ASK)
        return run_with(models, work), metered.budget.calls
