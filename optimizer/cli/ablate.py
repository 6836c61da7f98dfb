"""``mnemotune ablate``: compare variants of a search."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from . import options
from .output import print_json
from .places import RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..search.ablation import Run
    from ..views.searches import SearchesProgress


def ablate_command(
    config: Annotated[Path, typer.Argument(help="A file with `config`, `seeds` and `variants`.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="key=value for all variants, dots in the key.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="How many (5 is 0 to 4), or which: 3,5 names two, 7, names one.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The folder of all runs; else runs/NAME.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every variant, say what the searches will spend, and end.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Search with variants of a config, each under several seeds, and compare what they find on the same sealed users.

    What is done is not run again, and what was stopped goes on. The other variants are compared with the first. A file:

    {config: quickstart.yaml, variants: {as it is: {}, no racing: {search.racing: false}}}

    Example: mnemotune ablate variants.yaml --seeds 3
    """
    # imported late: Optuna takes a while
    from ...policies.lm.providers import model_named
    from ..models import track_of
    from ..search.ablation import compare_variants, load_ablation, read_searches, runs_of
    from ..search.ablation_plan import plan
    from ..search.allowance import dealer
    from ..search.effects import twins
    from ..search.outcome import check_no_run
    from ..search.searches import ready
    from ..stores import default_uri
    from ..views.ablation_page import write_ablation_page
    from ..views.comparison import comparison_table, write_comparison
    from ..views.ending import ui_command
    from ..views.listeners import unseen_listeners
    from ..views.searches import SearchesProgress, show_plan
    from ..views.table import heading, print_table, say
    from ..views.tracking.scores import log_ablation

    ablation = load_ablation(config, seeds=[] if seeds is None else _seeds(seeds))
    folder, console = out or RUNS / config.stem, Console(stderr=True)
    check_no_run(folder)
    runs = runs_of(ablation, beside=config.parent, out=folder, overrides=settings or [])
    deal = dealer()
    with console.status("checking every variant, and playing a few policies with the embedded model"):
        runs = ready(runs, listeners=unseen_listeners, deal=deal)
        planned = plan(runs, deal)
    warnings = [str(pair) for pair in twins({run.variant: run.config for run in runs})]
    say(console, *warnings, style="yellow")
    if dry_run and as_json:
        print_json({"ablation": str(config), **planned.as_json(), "warnings": warnings})
        return
    if dry_run or planned.variants:
        show_plan(planned, Console() if dry_run else console)
    if dry_run:
        return
    _carry_out(runs, SearchesProgress(console, runs, planned))
    by_variant, model, track = read_searches(runs), runs[0].config.model, track_of(runs[0].config)
    noun, stage_noun, tokens = track.noun, track.stage_noun, runs[0].config.context_tokens
    variants = compare_variants(by_variant)
    groups = len({group for searches in by_variant.values() for search in searches for group in search.by_group})
    about = {"ablation": str(config), "model": model, "groups": groups, "seeds": list(ablation.seeds)}
    about |= {"context_tokens": tokens, "settings": settings or [], "changes": ablation.variants}
    about |= {"warnings": warnings}
    values = write_comparison(variants, folder, about=about, stage_noun=stage_noun)
    command = _command(config, settings or [], seeds, out)
    report = write_ablation_page(ablation, runs, variants, folder, command=command, warnings=warnings)
    if as_json:
        print_json(values)
    else:
        single = len(ablation.seeds) == 1
        counted, over = ("1 seed", f"{noun}s") if single else (f"{len(ablation.seeds)} seeds", f"{noun}s and seeds")
        console = Console()
        console.print()
        title = f"Sealed tests, {counted}: {heading(groups, track, model=model, context_tokens=tokens)}"
        print_table(console, comparison_table(variants, title=title, stage_noun=stage_noun))
        say(
            console,
            f"over window: the score less that of the newest messages that fit; difference: to {variants[0].name}, "
            f"paired by {noun} and seed, with a 95% interval over {over}; evidence: evidence recall",
        )
        if model_named(model).stand_in:
            remark = f"Scores are the {model} model's: they compare searches, not real language models."
            say(console, remark, style="dim")
        files = [f"{'':6} {folder / name}" for name in ("results.json", "table.md", "plot.svg")]
        say(console, f"report {report}", *files)
        if (tracking := runs[0].config.tracking) is not None:
            say(console, f"MLflow {ui_command(tracking.whole_uri or default_uri(folder))}")
    # last: a store that fails now loses nothing of what is shown
    log_ablation(variants, runs[0].config, folder, about={"ablation": config, "model": model, "seeds": ablation.seeds})


def _command(config: Path, settings: Sequence[str], seeds: str | None, out: Path | None) -> str:
    """Return the command that compares these variants again."""
    given = [*(("--set", setting) for setting in settings), ("--seeds", seeds), ("--out", out)]
    options = [str(part) for name, value in given if value is not None for part in (name, value)]
    return shlex.join(["mnemotune", "ablate", str(config), *options])


def _carry_out(runs: Sequence[Run], progress: SearchesProgress) -> None:
    """Carry out what is left of an ablation, and show how far it is."""
    from ...policies.lm import EndpointDown
    from ...policies.lm.postgres import DatabaseSilent
    from ..search.searches import carry_out
    from ..views.listeners import unseen_listeners
    from ..views.table import say

    try:
        with progress.shown():
            carry_out(runs, listeners=unseen_listeners, finished=progress.finished, stands=progress.stands)
    except KeyboardInterrupt:
        say(progress.console, "stopped; the same command goes on")
        raise typer.Exit(130) from None
    except (EndpointDown, DatabaseSilent) as error:
        raise type(error)(f"{error}\nWhat is done is kept: the same command goes on") from None


def _seeds(text: str) -> list[int]:
    from ..config import ConfigError

    try:
        numbers = [int(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or (numbers == [0] and "," not in text):
        raise ConfigError(f"--seeds {text}: write how many, for example 5, or which, for example 0,1,2 (one alone: 7,)")
    return numbers if "," in text else list(range(numbers[0]))
