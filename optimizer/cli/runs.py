"""``mnemotune runs``, ``show``, ``compare`` and ``export``: what runs have come to."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from . import options
from .output import print_json
from .places import RUNS, run_folder

if TYPE_CHECKING:
    from ...policies.deploy.deployment import Deployment

Run = Annotated[Path, typer.Argument(help="A run folder, or its name in `runs`.")]


class Form(StrEnum):
    """What a run can be exported to."""

    yaml = "yaml"
    json = "json"
    parquet = "parquet"
    mlflow = "mlflow"
    mem0 = "mem0"
    langmem = "langmem"


def _as_text(values: Any) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def _settings(deployment: Deployment, to: Form) -> str:
    """Return settings of another memory, and list what they do not say."""
    from ...policies.deploy.exports import EXPORTS

    export = EXPORTS[to](deployment)
    typer.echo(f"{to} cannot express:", err=True)
    for line in export.lost:
        typer.echo(f"- {line}", err=True)
    return _as_text({**export.settings, "not_expressed": export.lost})


def runs_command(
    folder: Annotated[Path, typer.Argument(help="A folder of runs.")] = RUNS,
    as_json: options.Json = False,
) -> None:
    """List runs: how far each came, what its evolved policy scores, what it spent.

    Example: mnemotune runs
    """
    from ..config import ConfigError
    from ..views.runs import runs_in, runs_table
    from ..views.table import print_table, say

    rows = runs_in(folder)
    if as_json:
        print_json({"runs": [row.as_json() for row in rows]})
        return
    if not rows:
        raise ConfigError(f"{folder}: holds no run")
    console = Console()
    print_table(console, runs_table(rows, width=console.width))
    for row in rows:
        if row.outcome is None:
            say(Console(stderr=True), f"{row.folder}: {row.problem}", style="yellow")


def show_command(
    run: Run,
    trial: Annotated[int | None, typer.Argument(help="A trial's number; without, all trials in short.")] = None,
) -> None:
    """Show a run's sealed test and trials, or one trial with its policy beside its parent's.

    Example: mnemotune show runs/quickstart-001 17
    """
    from ..config import ConfigError
    from ..search.outcome import open_run
    from ..views.ending import how_to_go_on, not_over, show
    from ..views.runs import run_line, trial_lines, trials_table
    from ..views.table import print_table, say

    run = run_folder(run)
    outcome, console = open_run(run), Console()
    trials = outcome.study.trials
    if trial is None:
        say(console, run_line(outcome), "")
        print_table(console, trials_table(outcome))
        if trials:
            shown = f"`mnemotune show {shlex.quote(str(run))} TRIAL` shows a trial's policy beside its parent's"
            say(console, shown, style="dim")
        if outcome.test.rows:
            show(outcome)
        else:
            say(console, *not_over(outcome), style="yellow")
        return
    if not trials:
        raise ConfigError(f"{run}: has no trial yet: {how_to_go_on(run)}")
    if not 0 <= trial < len(trials):
        raise ConfigError(f"{run}: has no trial {trial}; its trials are 0 to {len(trials) - 1}")
    parent = trials[trial].parent
    say(console, *trial_lines(trials[trial], None if parent is None else trials[parent]))


def compare_command(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders, or their names in `runs`.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write a page too: scores by group, stages, failures, prompts, cost.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare the evolved policies of runs, paired over the groups that their sealed tests share.

    Example: mnemotune compare runs/quickstart-001 runs/quickstart-002 --out compared.html
    """
    from ..config import ConfigError
    from ..search.outcome import open_run
    from ..views.runs import Comparison, comparison_of_runs
    from ..views.table import print_table, say

    folders = list(dict.fromkeys(map(run_folder, runs)))
    if len(folders) < 2:
        raise ConfigError("name two or more runs, each once")
    outcomes = {str(folder): open_run(folder) for folder in folders}
    comparison = Comparison.of(outcomes)
    if out is not None:
        from ..views.compare_page import write_compare_page

        write_compare_page(comparison, outcomes, out)
    if as_json:
        print_json(comparison.as_json())
        return
    console = Console()
    print_table(console, comparison_of_runs(comparison, width=console.width))
    if out is not None:
        say(console, f"page {out}")


def export_command(
    run: Run,
    to: Annotated[Form, typer.Option("--to", help="What to write.")],
    out: Annotated[Path | None, typer.Option("--out", help="The file, or for parquet the folder.")] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="For mlflow: make its view anew.")] = False,
) -> None:
    """Export a run: policy (yaml), result (json), frames (parquet), view in MLflow, settings of mem0 or langmem.

    Without --out, yaml, json and settings are printed. What mem0 and LangMem cannot express is listed.
    Example: mnemotune export runs/quickstart-001 --to parquet --out tables
    """
    from ...data.whole_files import write_whole
    from ...policies.deploy.deployment import Deployment
    from ...policies.files import dump_policy
    from ..config import ConfigError
    from ..search.outcome import open_run
    from ..search.place import is_at_work
    from ..views.ending import how_to_go_on, not_over
    from ..views.table import say

    if rebuild and to is not Form.mlflow:
        raise ConfigError(f"--rebuild: has no effect with --to {to}; leave it out")
    run = run_folder(run)
    outcome = open_run(run)
    match to:
        case Form.parquet:
            from ..views.frames import load_run

            for path in load_run(run).write(out or run / "frames"):
                typer.echo(path)
        case Form.mlflow:
            from ..search.run import refresh
            from ..views.tracking.tracker import Tracker

            if out is not None:
                raise ConfigError("--out: has no effect with --to mlflow; the run's config says where MLflow is")
            if outcome.config.tracking is None:
                raise ConfigError(f"{run}: its config says `tracking: none`, so that MLflow shows nothing of it")
            if is_at_work(run, outcome.config.storage):
                raise ConfigError(f"{run}: another process is at work on this run, and shows it in MLflow itself")
            refresh(run, listeners=[Tracker(tell=partial(typer.echo, err=True), rebuild=rebuild)])
            typer.echo(outcome.tracking_uri or "")
        case Form.yaml | Form.json | Form.mem0 | Form.langmem:
            best = outcome.study.best.policy if outcome.study.trials else None
            if to is not Form.json and best is None:
                raise ConfigError(f"{run}: has no policy yet: {how_to_go_on(run)}")
            if to is not Form.json and outcome.ended is None:
                say(Console(stderr=True), *not_over(outcome), style="yellow")
            if to is Form.json or best is None:
                text = _as_text(outcome.as_json())
            elif to is Form.yaml:
                text = dump_policy(best)
            else:
                config = outcome.config
                text = _settings(Deployment(best, config.model, config.embedder, config.context_tokens), to)
            if out is None:
                typer.echo(text, nl=False)
            else:
                write_whole(out, text)
                typer.echo(out)
