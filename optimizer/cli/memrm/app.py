"""``mnemotune memrm``: a reward model of memory writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from .... import __version__
from ....data.dialogue.scenario import Scenario
from ....env import DialogueTrack
from ....env.dialogue.generation.folder import write_json
from ....env.memrm.collection.collect import CollectedEpisode, collect
from ....env.memrm.collection.datacard import data_card
from ....env.memrm.rows.retrievals import retrievals_file
from ....env.memrm.rows.row import write_rows
from ....env.memrm.rows.splits import data_card_file, hold_out
from ....policies.policy import MemoryPolicy
from ...models import Models, open_models, protocol_of
from ...search.cores import collect_on, processes_to_collect
from ..evaluate import ModelOption, settings_of
from .evaluate import eval_command
from .export import export_command
from .score import score_command
from .train import train_command

if TYPE_CHECKING:
    from ...proposers.population import Member

app = typer.Typer(no_args_is_help=True)
app.command("train")(train_command)
app.command("score")(score_command)
app.command("eval")(eval_command)
app.command("export")(export_command)


@app.command("collect")
def collect_command(
    names: Annotated[
        list[str],
        typer.Option(
            "--policies", help="`presets`, `random:N`, `damaged:N`, a preset or a policy file; several may follow."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The JSONL file to write; OUT.card.json and OUT.shown.jsonl come beside it.")
    ],
    more: Annotated[list[str] | None, typer.Argument(help="Further policies.", show_default=False)] = None,
    data: Annotated[str, typer.Option("--data", help="A file, a folder, a bundled set, or generated:N@SEED.")] = "base",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws policies, writes and splits.")] = 0,
    writes: Annotated[
        int | None, typer.Option("--writes", min=1, help="Most writes of an episode to label; all by default.")
    ] = None,
    each: Annotated[
        int | None, typer.Option("--each", min=1, help="Policies that each user plays with; all by default.")
    ] = None,
    model: ModelOption = None,
    config: Annotated[Path | None, typer.Option("--config", help="A config for endpoint, rounds, templates.")] = None,
    users: Annotated[str | None, typer.Option("--users", help="Only these users: ID,ID,...")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the data card on standard output.")] = False,
) -> None:
    """Label the memory writes of many policies: do they lose facts that a question asks for."""
    from ...proposers.population import dealt, population  # imported late: Optuna takes a while

    settings = settings_of(config, model=model)
    all_names = [*names, *(more or [])]
    members = population(all_names, seed=seed, templates=settings.templates)
    track = DialogueTrack(protocol_of(settings))
    scenarios = track.load(data, groups=None if users is None else [user.strip() for user in users.split(",")])
    _check_place(out)
    console = Console(stderr=True)
    hands = dealt(members, [scenario.id for scenario in scenarios], each=each, seed=seed)
    policies = {user: {member.policy.key: member.policy for member in hand} for user, hand in hands.items()}
    episodes = sum(map(len, hands.values()))
    # a remote model's replies are kept, so that the same command goes on where it was stopped
    with open_models(settings, folder=Path(f"{out}.calls")) as models, console.status("") as status:

        def done(found: Sequence[CollectedEpisode]) -> None:
            status.update(f"{len(found):,}/{episodes:,} episodes, {sum(len(one.rows) for one in found):,} rows")

        processes = processes_to_collect(per_core=models.per_core, users=len(scenarios), episodes=episodes)
        if processes > 1:
            played = collect_on(processes, track, models.cast, policies, scenarios, seed=seed, writes=writes, done=done)
        else:
            played = asyncio.run(_collect(track, models, policies, scenarios, seed, writes, done))
    rows = [row for one in played for row in one.rows]
    splits = hold_out(
        users=(scenario.id for scenario in scenarios),
        policies=sorted({row.policy for row in rows}),
        topics=(fact.topic for row in rows for fact in row.facts),
        seed=seed,
    )
    digest = write_rows(out, rows)
    write_rows(retrievals_file(out), (one.showing for one in played if one.showing is not None))
    made = {
        "data": data, "users": users, "policies": all_names, "seed": seed, "writes": writes, "each": each,
        "model": settings.model, "version": __version__,
    }  # fmt: skip
    kinds = {m.policy.key: (m.name, " ".join(filter(None, [m.origin, m.prompt])), m.policy) for m in members}
    told = data_card(played, kinds, splits, settings=made, digest=digest)
    write_json(data_card_file(out), told)
    if as_json:
        typer.echo(json.dumps(told, ensure_ascii=False))
    _show(told, members, out, console)
    if len(told["failures"]) == len(played):
        raise typer.Exit(1)


def _check_place(out: Path) -> None:
    """Say before any call that the rows cannot be written where they are to go."""
    if out.is_dir():
        raise typer.BadParameter(
            f"{out} is a folder; name a file in it, for example {out / 'rows.jsonl'}", param_hint="--out"
        )
    out.parent.mkdir(parents=True, exist_ok=True)


async def _collect(
    track: DialogueTrack,
    models: Models,
    policies: Mapping[str, Mapping[str, MemoryPolicy]],
    scenarios: Sequence[Scenario],
    seed: int,
    writes: int | None,
    done: Callable[[Sequence[CollectedEpisode]], None],
) -> list[CollectedEpisode]:
    found: list[CollectedEpisode] = []
    try:
        for scenario in scenarios:
            found += await collect(track, scenario, policies[scenario.id], models.cast, seed=seed, writes=writes)
            done(found)
        return found
    finally:
        await models.aclose()


def _show(told: Mapping[str, Any], members: Sequence[Member], out: Path, console: Console) -> None:
    def say(line: str, style: str | None = None) -> None:
        console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)

    rows, writes, calls = told["rows"], told["writes"], told["calls"]
    silent = [member.name for member in members if member.policy.write.mode == "none"]
    if silent:
        say(f"{', '.join(silent)}: writes nothing, so there are no rows", "yellow")
    say(
        f"{rows['rows']:,} rows written to {out}: {rows['SAFE']:,} SAFE, {rows['HARMFUL']:,} HARMFUL; "
        f"{writes['undecided']:,} writes left out, where the model wavers; "
        f"{calls['episodes']:,} calls for episodes, {calls['labels']:,} for labels"
    )
    for failure in told["failures"]:
        say(f"user {failure['user']}, policy {failure['policy']} failed: {failure['reason']}", "yellow")
