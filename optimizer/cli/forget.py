"""``mnemotune forget``: forget what somebody told."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from . import options
from .places import run_folder


def forget_command(
    fact: Annotated[str, typer.Argument(help="What is to be forgotten, in the words that memory shows, or as told.")],
    user: Annotated[str | None, typer.Option("--user", help="Whose memory in the store forgets it.")] = None,
    store: Annotated[Path, options.STORE] = options.DEFAULT_STORE,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--run", help="A run's folder, or what `--out` named; its replies and records forget it too."),
    ] = None,
) -> None:
    """Forget a fact that a user told: in the memories of a deployment, and in what runs keep of the user's talks.

    Every text that has all words of the fact which carry meaning goes. No model is asked.
    Example: mnemotune forget "lives in Lisbon" --user ann --store memories.db
    """
    from ..forget import forget_in_store

    if user is None and not runs:
        raise typer.BadParameter("say whose memory forgets it, or which run", param_hint="--user, --run")
    if not fact.strip():
        raise typer.BadParameter("is empty", param_hint="FACT")
    folders = [run_folder(run) for run in runs or ()]
    if user is not None:
        gone = asyncio.run(forget_in_store(store, user, fact))
        typer.echo(f"{store}, {user}: texts removed: {len(gone)}" + "".join(f"\n- {text}" for text in gone))
    gone_from = [_is_gone(folder, fact) for folder in folders]
    if not all(gone_from):
        raise typer.Exit(1)


def _is_gone(folder: Path, fact: str) -> bool:
    """Have a run forget a fact, and make what is made from it again; name the files that still have the fact."""
    from ..forget import forget_in_run, still_in
    from ..search.run import refresh
    from ..views.report import ReportWriter
    from ..views.tracking.tracker import Tracker

    done = forget_in_run(folder, fact)
    if done.outcome is not None:
        refresh(folder, listeners=[ReportWriter(), Tracker(tell=partial(typer.echo, err=True), rebuild=True)])
    kept = f"kept replies: {done.replies}, kept vectors: {done.vectors}"
    typer.echo(f"{folder}: removed {kept}, texts of records: {done.texts}")
    left = still_in(folder, done.outcome, fact)
    if left:
        typer.echo("still in:" + "".join(f"\n- {path}" for path in left), err=True)
    return not left
