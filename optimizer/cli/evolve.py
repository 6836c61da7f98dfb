"""``mnemotune evolve``: search for a better policy."""

from __future__ import annotations

import math
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ...policies.files import WINDOW
from ...policies.lm import EndpointDown
from ...policies.lm.postgres import DatabaseSilent
from ...policies.lm.providers import model_named
from ...policies.lm.secrets import redacted
from ..config import ConfigError, default_uri, load_config
from ..search.sealed import EVOLVED, SEED
from ..views.table import (
    acted_by,
    bound_notes,
    by_reader,
    reply_notes,
    say,
    score_table,
    signed,
    unscored_note,
    with_interval,
)
from . import options
from .output import explained, print_json

if TYPE_CHECKING:
    from ..search.outcome import Outcome


def evolve_command(
    config: Annotated[Path | None, typer.Argument(help="A config, for example configs/quickstart.yaml.")] = None,
    settings: options.Set = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The search's seed.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="What to be best in: score, score-per-token, score-per-dollar or score-per-call."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; else the next free one in runs/.")] = None,
    resumed: Annotated[Path | None, typer.Option("--resume", help="Go on with the run in this folder.")] = None,
    as_json: options.Json = False,
) -> None:
    """Evolve a memory policy, and score it on users that the search never saw."""
    from ..search.run import evolve, resume  # imported late: Optuna takes a while that other commands do not need
    from ..study import StudyError
    from ..views.listeners import listeners_at

    given = {"search.seed": seed, "search.objective": objective}
    overrides = [*(settings or []), *(f"{key}={value}" for key, value in given.items() if value is not None)]
    console = Console(stderr=True)
    loaded = None if config is None or resumed is not None else load_config(config, overrides=overrides)
    folder = _folder(config, out, resumed)
    try:
        if loaded is None:
            outcome = resume(folder, overrides=overrides, listeners=listeners_at(console))
        else:
            outcome = evolve(loaded, folder, listeners=listeners_at(console))
    except KeyboardInterrupt:
        say(console, f"stopped; {_how_to_go_on(folder)}")
        raise typer.Exit(130) from None
    except (EndpointDown, DatabaseSilent) as error:
        raise type(error)(f"{error}\nThe run is kept as it is: {_how_to_go_on(folder)}") from None
    except (StudyError, OSError) as error:
        if not (folder / "config.yaml").exists():  # it has not begun
            raise
        raise StudyError(f"{explained(error)}\nWhat is written is kept: {_how_to_go_on(folder)}") from None
    finally:
        if out is None and resumed is None:
            with suppress(OSError):  # a folder with something in it stays
                folder.rmdir()
                folder.parent.rmdir()
    if as_json:
        print_json(outcome.as_json())
    else:
        show(outcome)
    if outcome.test.problem:
        raise typer.Exit(1)


def _folder(config: Path | None, out: Path | None, resumed: Path | None) -> Path:
    """Return the run's folder. Raises ConfigError when the arguments do not say which."""
    from ..search.outcome import holds_run

    if resumed is not None:
        if config is not None or out is not None:
            raise ConfigError("--resume RUN goes on under the run's own config: leave out CONFIG and --out")
        return resumed
    if config is None:
        raise ConfigError("name a config, for example `mnemotune evolve configs/quickstart.yaml`, or --resume RUN")
    folder = out or _next_free(Path("runs"), config.stem)
    if holds_run(folder):
        raise ConfigError(f"{folder}: holds a run already; go on with --resume {folder}, or choose another --out")
    return folder


def _how_to_go_on(folder: Path) -> str:
    return f"`mnemotune evolve --resume {folder}` goes on"


def _next_free(runs: Path, name: str) -> Path:
    """Make the next run folder of this name, which no other process gets."""
    n = 1
    while True:
        folder = runs / f"{name}-{n:03d}"
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        n += 1


def show(outcome: Outcome) -> None:
    """Print the table of the sealed test, and where everything is."""
    console = Console()
    noun, groups = outcome.track.noun, outcome.config.splits.test
    console.print()
    source = f" of {outcome.sealed_source}" if outcome.sealed_source else ""
    whom = f"{groups} {noun}s{source} that the search never saw{acted_by(outcome.track)}"
    console.print(score_table(outcome.test.rows, title=f"Sealed test: {whom}"))
    console.print()
    best = outcome.test.best_baseline
    others = {SEED: SEED, WINDOW: WINDOW} | ({} if best is None else {best: f"{best}, the best baseline here"})
    for other, label in others.items():
        gain, reworded = (outcome.test.difference_from(other, reworded=way) for way in (False, True))
        if not math.isnan(gain.mean):
            also = "" if math.isnan(reworded.mean) else f"; reworded {with_interval(reworded)}"
            say(console, f"evolved - {label}: {with_interval(gain)}, paired by {noun}{also}")
    if best is not None and EVOLVED in outcome.test.rows:
        gains = by_reader(outcome.test.rows, EVOLVED, best)
        if gains:
            each = ", ".join(f"{reader} {signed(gain.mean)}" for reader, gain in gains.items())
            say(console, f"evolved - {best} by reader, named after the model that it was fitted to: {each}")
    if outcome.study.trials and outcome.study.best.number == 0:
        say(console, "No candidate was accepted: the best policy is the seed policy.", style="yellow")
    say(console, *unscored_note(outcome.test.rows, outcome.track), style="yellow")
    say(console, *reply_notes(outcome.replies), style="yellow")
    say(console, *bound_notes(outcome.at_bounds, context_tokens=outcome.config.context_tokens), style="yellow")
    if outcome.test.problem:
        say(console, f"{outcome.test.problem}; {_how_to_go_on(outcome.folder)}", style="yellow")
    if model_named(outcome.config.model).stand_in:
        model = outcome.config.model
        say(console, f"Scores are the {model} model's: they compare policies, not real language models.", style="dim")
    folder, uri = outcome.folder, outcome.tracking_uri
    places = {"run": folder, "policy": folder / "best_policy.yaml", "report": folder / "report.html"}
    for name, place in (places | ({} if uri is None else {"MLflow": _ui_command(uri)})).items():
        say(console, f"{name:<7} {place}")


def _ui_command(uri: str) -> str:
    """Return where to see the run in MLflow: a server's address, else what to type from here for this program."""
    if uri.startswith("http"):
        return redacted(uri)
    program = "mnemotune" if shutil.which("mnemotune") else sys.argv[0]
    return f"{program} ui" if uri == default_uri(Path("runs")) else f"{program} ui --uri {redacted(uri)}"
