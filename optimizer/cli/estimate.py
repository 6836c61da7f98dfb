"""``mnemotune estimate``: what a run will spend."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from ...policies.lm.providers import model_named
from ..config import Config, load_config
from ..models import notes, priced, track_of
from ..views.table import count

if TYPE_CHECKING:
    from ..search.estimate import Estimate


def estimate_command(
    config: Annotated[Path, typer.Argument(help="A config, for example configs/quickstart.yaml.")],
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, dots in the key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Say what `evolve` will spend, before it spends anything."""
    from ..search.allowance import splits_of  # imported late: Optuna takes a while that other commands do not need
    from ..search.estimate import estimate
    from ..search.rehearsal import rehearse

    chosen = priced(load_config(config, overrides=settings or []))
    splits = splits_of(chosen)
    console = Console(stderr=True)
    with console.status(f"playing a few policies on one train {track_of(chosen).noun} with the embedded model"):
        found = estimate(chosen, splits, asyncio.run(rehearse(chosen, splits, clock=time.process_time)))
    if as_json:
        typer.echo(json.dumps({"config": str(config), "model": chosen.model, **found.as_json()}, ensure_ascii=False))
    else:
        _show(found, chosen)


def _show(found: Estimate, config: Config) -> None:
    console, told = Console(), found.as_json()
    table = Table(
        title="About what the run will spend", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for column in ("role", "calls", "input tokens", "output tokens", "cost"):
        table.add_column(column, justify="left" if column == "role" else "right", no_wrap=True)
    for role, calls in told["calls"].items():
        tokens = told["tokens"][role]
        table.add_row(role, f"{calls:,}", count(tokens["input"]), count(tokens["output"]), _dollars(told["usd"][role]))
    sums = (sum(tokens[way] for tokens in told["tokens"].values()) for way in ("input", "output"))
    table.add_row(
        "total", f"{told['total']['calls']:,}", *map(count, sums), _dollars(told["total"]["usd"]), style="bold"
    )
    console.print(table)
    for line in (_end(found), _parts(found), _time(found, config), *notes(config)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not model_named(config.model).stand_in:
        note = "Tokens are those of the embedded model's replies: a model that writes more takes more."
        console.print(note, style="yellow", highlight=False, soft_wrap=True)


def _end(found: Estimate) -> str:
    candidates = f"about {found.candidates:,} of {found.planned:,} candidates"
    if found.ended_by == "generations":
        return f"The search ends when all its generations are done, after {candidates}."
    return f"The search ends when its share of search.budget.{found.ended_by} is used up, after {candidates}."


def _parts(found: Estimate) -> str:
    return "Calls: " + ", ".join(f"{name} {calls:,}" for name, calls in found.as_json()["parts"].items()) + "."


def _time(found: Estimate, config: Config) -> str:
    from ..views.progress import clock_text  # imported late, as above

    if found.seconds is None:
        return "How long it takes is not known: that is the endpoint's to say."
    clock, here = clock_text(found.seconds), config.stands_in
    return f"It takes {clock} very roughly, on this machine." if here else f"It takes {clock} at least, at this pace."


def _dollars(usd: float | None) -> str:
    return "not known" if usd is None else f"${usd:,.2f}"
