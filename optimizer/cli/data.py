"""``mnemotune data``: make and check scenarios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...data.generator import generate_scenarios
from ...data.load import load_scenarios

app = typer.Typer(no_args_is_help=True)


@app.command("generate")
def generate_command(
    out: Annotated[Path, typer.Option("--out", help="The JSON file to write.")],
    users: Annotated[int, typer.Option("--users", min=1, help="How many users.")] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed makes the same users.")] = 0,
) -> None:
    """Make simulated users from the bundled library, in the proportions of AMemGym's v1.base."""
    rows = [scenario.model_dump(mode="json") for scenario in generate_scenarios(users=users, seed=seed)]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    typer.echo(f"{users} users written to {out}", err=True)


@app.command("check")
def check_command(
    source: Annotated[str, typer.Argument(help="A file, a folder, a bundled set, generated:N@SEED or hf:OWNER/NAME.")],
) -> None:
    """Load scenarios, say what is wrong with them, or else what they hold."""
    scenarios = load_scenarios(source)
    for scenario in scenarios:
        sessions = sum(len(period.sessions) for period in scenario.periods)
        unscored = sum(q.gold(period.state) is None for period in scenario.periods for q in scenario.qas)
        note = f", {unscored} questions without a right answer in their period" if unscored else ""
        typer.echo(
            f"{scenario.id}: {len(scenario.periods)} periods, {sessions} sessions, {len(scenario.qas)} questions{note}"
        )
    typer.echo(f"{len(scenarios)} users, no errors")
