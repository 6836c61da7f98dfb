"""``mnemotune ablate``: compare variants of a search."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from . import options
from .output import print_json


def ablate_command(
    config: Annotated[Path, typer.Argument(help="A file with `config`, `seeds` and `variants`.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="key=value for all variants, dots in the key.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="How many, or which: 10 is 0 to 9, and 3,5 is those two.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The folder of all runs; else runs/NAME.")] = None,
    as_json: options.Json = False,
) -> None:
    """Search with variants of a config, each under several seeds, and compare what they find on the same sealed users.

    What is finished is not run again, and what was stopped goes on. Example: mnemotune ablate variants.yaml --seeds 3
    """
    # imported late: Optuna takes a while
    from ...policies.lm import EndpointDown
    from ...policies.lm.postgres import DatabaseSilent
    from ...policies.lm.providers import model_named
    from ..models import track_of
    from ..search.ablation import Finished, Run, carry_out, compare_variants, load_ablation, read_searches, runs_of
    from ..views.comparison import comparison_table, write_comparison
    from ..views.listeners import unseen_listeners
    from ..views.table import heading, number, say

    ablation = load_ablation(config, seeds=[] if seeds is None else _seeds(seeds))
    folder = out or Path("runs") / config.stem
    runs = runs_of(ablation, beside=config.parent, out=folder, overrides=settings or [])
    console, done = Console(stderr=True), count(1)

    def finished(run: Run) -> None:
        search = Finished.of(run)
        spent = f"{search.calls:,} calls, {search.seconds:.0f} s"
        place = f"{next(done)}/{len(runs)} {run.variant}, seed {run.seed}"
        say(console, f"{place}: {number(search.mean)} after {spent}")

    try:
        carry_out(runs, listeners=unseen_listeners, finished=finished)
    except KeyboardInterrupt:
        say(console, "stopped; the same command goes on")
        raise typer.Exit(130) from None
    except (EndpointDown, DatabaseSilent) as error:
        raise type(error)(f"{error}\nWhat is finished is kept: the same command goes on") from None
    by_variant, model, track = read_searches(runs), runs[0].config.model, track_of(runs[0].config)
    noun, stage_noun, tokens = track.noun, track.stage_noun, runs[0].config.context_tokens
    variants = compare_variants(by_variant)
    groups = len({group for searches in by_variant.values() for search in searches for group in search.by_group})
    about = {"ablation": str(config), "model": model, "groups": groups, "seeds": list(ablation.seeds)}
    about |= {"context_tokens": tokens, "settings": settings or [], "changes": ablation.variants}
    values = write_comparison(variants, folder, about=about, stage_noun=stage_noun)
    if as_json:
        print_json(values)
        return
    single = len(ablation.seeds) == 1
    counted, over = ("1 seed", f"{noun}s") if single else (f"{len(ablation.seeds)} seeds", f"{noun}s and seeds")
    console = Console()
    console.print()
    title = f"Sealed tests, {counted}: {heading(groups, track, model=model, context_tokens=tokens)}"
    console.print(comparison_table(variants, title=title, stage_noun=stage_noun))
    say(
        console,
        f"over window: the score less that of the newest messages that fit; difference: to {variants[0].name}, paired"
        f" by {noun} and seed, with a 95% interval over {over}",
    )
    if model_named(model).stand_in:
        say(console, f"Scores are the {model} model's: they compare searches, not real language models.", style="dim")
    say(console, *(str(folder / name) for name in ("table.md", "plot.svg", "results.json")))


def _seeds(text: str) -> list[int]:
    from ..config import ConfigError

    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or (numbers == [0] and "," not in text):
        raise ConfigError(f"--seeds {text}: write how many, for example 5, or which, for example 0,1,2")
    return numbers if "," in text else list(range(numbers[0]))
