"""``mnemotune results``: the scores in AMemGym's result files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from . import options
from .output import print_json

if TYPE_CHECKING:
    from ...env import Evaluation


def results_command(
    folder: Annotated[Path, typer.Argument(help="A folder with runs of AMemGym's, or exported ones, at any depth.")],
    data: Annotated[str, typer.Option("--data", help="The data.json that they ran on.")] = "base",
    as_json: options.Json = False,
) -> None:
    """Show the scores of AMemGym's own runs, worked out as its paper does.

    Example: mnemotune results results/amemgym --data data.json
    """
    from ...data.dialogue.load import load_scenarios
    from ...env import Summary
    from ...env.dialogue.interchange import find_runs, find_upper_bound, policy_of_run, read_results
    from ..views.table import counted, print_table, say, score_table

    scenarios = load_scenarios(data)
    evaluations = {
        name: read_results(run, scenarios, upper_bound=find_upper_bound(folder, run), policy=policy_of_run(run))
        for name, run in find_runs(folder).items()
    }
    rows = {name: Summary.of(evaluation, name=name) for name, evaluation in evaluations.items()}
    if as_json:
        print_json({"data": data, "runs": {name: row.as_json() for name, row in rows.items()}})
    else:
        groups = max(row.groups for row in rows.values())
        print_table(Console(), score_table(rows, title=f"{counted(groups, 'user')}, scored as AMemGym does"))
    say(Console(stderr=True), *_remarks(evaluations, len(scenarios)), style="yellow")


def _remarks(evaluations: Mapping[str, Evaluation], users: int) -> Iterator[str]:
    """Say what the files leave open."""
    from ...env.dialogue.record import PeriodRecord
    from ..views.table import counted

    for name, evaluation in evaluations.items():
        absent = users - len(evaluation.episodes)
        if absent:
            yield f"{name}: {absent} of {counted(users, 'user')} have no results"
        for user, reason in evaluation.failures.items():
            yield f"{name}: user {user}: {reason}"
        if not evaluation.bounds:
            yield f"{name}: there is no utilization_results.json (AMemGym's eval/upperbound.py), so no memory score"
        if any(isinstance(s, PeriodRecord) and not s.probes for e in evaluation.episodes for s in e.stages):
            yield f"{name}: some users lack diagnosis_results.json (AMemGym's eval/diagnosis.py), so no shares"
