"""``mnemotune report`` and ``mnemotune ui``: look at runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .places import RUNS, run_folder


def report_command(run: Annotated[Path, typer.Argument(help="A run folder, or its name in `runs`.")]) -> None:
    """Write a run's report again and bring MLflow up to date, from the run's study alone.

    Example: mnemotune report runs/quickstart-001
    """
    from ..search.listener import Listener
    from ..search.outcome import open_run
    from ..search.place import is_at_work
    from ..search.run import refresh
    from ..views.report import ReportWriter
    from ..views.tracking.tracker import Tracker

    folder, tell = run_folder(run), partial(typer.echo, err=True)
    listeners: list[Listener] = [ReportWriter()]
    if is_at_work(folder, open_run(folder).config.storage):
        tell(f"{folder}: another process is at work on this run, and shows it in MLflow itself")
    else:
        listeners.append(Tracker(tell=tell))
    typer.echo(refresh(folder, listeners=listeners).folder / "report.html")


def ui_command(
    uri: Annotated[
        str | None,
        typer.Option("--uri", help="MLflow's store; else runs/mlflow.db."),
    ] = None,
    host: Annotated[str, typer.Option("--host")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 5000,
    optuna: Annotated[
        Path | None, typer.Option("--optuna", help="Serve Optuna's dashboard on the study of this run instead.")
    ] = None,
    opens: Annotated[bool, typer.Option("--open", help="Open the charts in a browser.")] = False,
) -> None:
    """Serve MLflow's pages on the runs, and say where the newest study's charts are.

    Example: mnemotune ui --open
    """
    # imported late: a help text needs none of it
    from ..config import ConfigError
    from ..search.outcome import study_url
    from ..stores import Tracking, default_uri
    from ..views.tracking.server import check_port, optuna_server, serve
    from ..views.tracking.store import LOCAL, check_store

    if optuna is not None:
        if uri is not None or opens:
            raise ConfigError("--optuna: goes with --host and --port alone; leave --uri and --open out")
        storage = study_url(run_folder(optuna))
        serve_optuna = optuna_server()
        check_port(host, port)
        typer.echo(f"Optuna's dashboard: http://{host}:{port}/dashboard; Ctrl-C ends it", err=True)
        serve_optuna(storage, host=host, port=port)
        return
    store = Tracking(uri=uri).whole_uri or default_uri(RUNS)
    file = Path(store.removeprefix(LOCAL))
    if store.startswith(LOCAL) and not file.is_file():
        given = f"leave --uri out for the runs in `{RUNS}`"
        usual = "run `mnemotune evolve` first, or name MLflow's store with --uri"
        raise ConfigError(f"{file}: no such file; {usual if uri is None else given}")
    check_store(store)
    check_port(host, port)
    typer.echo("MLflow's server starts, which takes some seconds; Ctrl-C ends it", err=True)
    serve(store, host=host, port=port, opens=opens)
