"""``mnemotune evolve``: search for a better policy."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from . import options
from .output import explained, print_json
from .places import RUNS, run_folder

if TYPE_CHECKING:
    from ..config import Config
    from ..search.listener import Listener


def evolve_command(
    config: Annotated[Path | None, typer.Argument(help="A config, for example configs/quickstart.yaml.")] = None,
    settings: options.Set = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The search's seed.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What to be best in: score, score-and-evidence, evidence-alone, evidence, or score-per-token, -call, "
            "-dollar or -byte."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run folder; else the next free one in runs/.")] = None,
    resumed: Annotated[Path | None, typer.Option("--resume", help="Go on with the run in this folder.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the config and its data, say what the run will spend, and end.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Evolve a memory policy, and score it on users that the search never saw.

    Example: mnemotune evolve configs/quickstart.yaml --seed 1 --set search.generations=4
    """
    # imported late: a help text needs none of it
    from ...policies.lm import EndpointDown
    from ...policies.lm.postgres import DatabaseSilent
    from ..config import load_config
    from ..search.outcome import holds_run
    from ..search.run import evolve, resume
    from ..study import StudyError
    from ..views.ending import how_to_go_on, show
    from ..views.listeners import listeners_at

    given = {"search.seed": seed, "search.objective": objective}
    overrides = [*(settings or []), *(f"{key}={value}" for key, value in given.items() if value is not None)]
    console = Console(stderr=True)
    loaded = None if config is None or resumed is not None else load_config(config, overrides=overrides)
    if dry_run:
        _rehearse(config, loaded, listeners_at(console), as_json=as_json)
        return
    folder = _folder(config, out, resumed)
    try:
        if loaded is None:
            outcome = resume(folder, overrides=overrides, listeners=listeners_at(console))
        else:
            outcome = evolve(loaded, folder, listeners=listeners_at(console))
    except KeyboardInterrupt:
        how = how_to_go_on(folder) if holds_run(folder) else "nothing was begun"
        console.print(f"stopped; {how}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    except (EndpointDown, DatabaseSilent) as error:
        if not holds_run(folder):
            raise
        raise type(error)(f"{error}\nThe run is kept as it is: {how_to_go_on(folder)}") from None
    except (StudyError, OSError) as error:
        if not holds_run(folder):
            raise
        raise StudyError(f"{explained(error)}\nWhat is written is kept: {how_to_go_on(folder)}") from None
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


def _rehearse(config: Path | None, loaded: Config | None, listeners: list[Listener], *, as_json: bool) -> None:
    """Say what a run would spend. Raises whatever error would keep it from its first call."""
    from ..config import ConfigError
    from ..models import pins
    from ..search.allowance import splits_of
    from ..search.run import prepare
    from .estimate import say_spending

    if loaded is None:
        raise ConfigError("--dry-run is for a run that is to begin: name its config, and leave out --resume")
    pinned = loaded.model_copy(update=pins(loaded))
    splits = splits_of(pinned)
    ready, _, _ = prepare(pinned, splits, listeners)
    say_spending(ready, splits, name=str(config), ask=False, as_json=as_json)


def _folder(config: Path | None, out: Path | None, resumed: Path | None) -> Path:
    """Return the run's folder. Raises ConfigError when the arguments do not say which."""
    from ..config import ConfigError
    from ..search.outcome import holds_run

    if resumed is not None:
        if config is not None or out is not None:
            raise ConfigError("--resume RUN goes on under the run's own config: leave out CONFIG and --out")
        return run_folder(resumed)
    if config is None:
        raise ConfigError("name a config, for example `mnemotune evolve configs/quickstart.yaml`, or --resume RUN")
    folder = out or _next_free(RUNS, config.stem)
    if holds_run(folder):
        again = f"--resume {shlex.quote(str(folder))}"
        raise ConfigError(f"{folder}: holds a run already; go on with {again}, or choose another --out")
    return folder


def _next_free(runs: Path, name: str) -> Path:
    """Make the next run folder of this name, which no other process gets."""
    n = 1
    while True:
        folder = runs / f"{name}-{n:03d}"
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        n += 1
