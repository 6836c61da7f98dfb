"""``mnemotune memrm collect``: labelled writes, for a reward model to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from .. import options
from ..output import print_json

if TYPE_CHECKING:
    from ....env.memrm.collection.collect import CollectedEpisode
    from ...proposers.population import Member


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
    data: options.Data = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws policies, writes and splits.")] = 0,
    writes: Annotated[
        int | None, typer.Option("--writes", min=1, help="Most writes of an episode to label; all by default.")
    ] = None,
    each: Annotated[int | None, typer.Option("--each", min=1, help="Policies for each task; all by default.")] = None,
    executions: Annotated[
        bool,
        typer.Option("--executions", help="Damage memories and carry the plan's next step out instead."),
    ] = False,
    track: options.Track = None,
    model: options.Model = None,
    config: options.Config = None,
    users: options.Users = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the data card on standard output.")] = False,
) -> None:
    """Label the memory writes of many policies: does a write lose a fact that a check needs.

    Example: mnemotune memrm collect --policies presets --data generated:12@5 --out rows.jsonl
    """
    from .... import __version__
    from ....data.json_files import write_json
    from ....env.memrm.collection.collect import collect
    from ....env.memrm.collection.datacard import data_card
    from ....env.memrm.collection.execution import foreign_lines
    from ....env.memrm.rows.retrievals import retrievals_file
    from ....env.memrm.rows.row import write_rows
    from ....env.memrm.rows.splits import data_card_file, hold_out
    from ...models import open_models
    from ...proposers.population import dealt, population  # imported late: Optuna takes a while
    from ...search.cores import collect_on, processes_to_collect
    from ..common import data_of, load_tasks, run_with, track_and_settings

    kind, settings = track_and_settings(config, model=model, track=track)
    all_names = [*names, *(more or [])]
    members = population(all_names, seed=seed, templates=settings.templates)
    data = data_of(kind, data)
    tasks = load_tasks(kind, data, users)
    if out.is_dir():
        example = out / "rows.jsonl"
        raise typer.BadParameter(f"{out} is a folder; name a file in it, for example {example}", param_hint="--out")
    out.parent.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    hands = dealt(members, [task.id for task in tasks], each=each, seed=seed)
    foreign = foreign_lines(tasks) if executions else None
    policies = {task: {member.policy.key: member.policy for member in hand} for task, hand in hands.items()}
    count = sum(map(len, hands.values()))
    # a remote model's replies are kept, so that the same command goes on where it was stopped
    with open_models(settings, folder=Path(f"{out}.calls")) as models, console.status("") as status:

        def done(episodes: Sequence[CollectedEpisode]) -> None:
            rows = sum(len(episode.rows) for episode in episodes)
            status.update(f"{len(episodes):,}/{count:,} episodes, {rows:,} rows")

        processes = processes_to_collect(per_core=models.per_core, tasks=len(tasks), episodes=count)
        if processes > 1:
            episodes = collect_on(
                processes, kind, models.cast, policies, tasks, seed=seed, writes=writes, foreign=foreign, done=done
            )
        else:

            async def collect_here() -> list[CollectedEpisode]:
                collected: list[CollectedEpisode] = []
                for task in tasks:
                    lines = None if foreign is None else foreign[task.group]
                    collected += await collect(
                        kind, task, policies[task.id], models.cast, seed=seed, writes=writes, foreign=lines
                    )
                    done(collected)
                return collected

            episodes = run_with(models, collect_here())
    rows = [row for episode in episodes for row in episode.rows]
    splits = hold_out(
        groups=(task.group for task in tasks),
        policies=sorted({row.policy for row in rows}),
        topics=(fact.topic for row in rows for fact in row.facts),
        seed=seed,
    )
    digest = write_rows(out, rows)
    write_rows(retrievals_file(out), (episode.retrievals for episode in episodes if episode.retrievals is not None))
    given = {
        "track": kind.name, "data": data, "users": users, "policies": all_names, "seed": seed, "writes": writes,
        "each": each, "model": settings.model, "executions": executions, "version": __version__,
    }  # fmt: skip
    kinds = {m.policy.key: (m.name, " ".join(filter(None, [m.origin, m.prompt])), m.policy) for m in members}
    card = data_card(episodes, kinds, splits, settings=given, digest=digest)
    write_json(data_card_file(out), card)
    if as_json:
        print_json(card)
    _show(card, members, out, console)
    if len(card["failures"]) == len(episodes):
        raise typer.Exit(1)


def _show(card: Mapping[str, Any], members: Sequence[Member], out: Path, console: Console) -> None:
    from ...views.table import say

    rows, writes, calls = card["rows"], card["writes"], card["calls"]
    silent = [member.name for member in members if member.policy.write.mode == "none"]
    if silent:
        say(console, f"{', '.join(silent)}: writes nothing, so there are no rows", style="yellow")
    say(
        console,
        f"{rows['rows']:,} rows written to {out}: {rows['SAFE']:,} SAFE, {rows['HARMFUL']:,} HARMFUL; "
        f"{writes['undecided']:,} writes left out, where the model cannot tell; "
        f"{calls['episodes']:,} calls for episodes, {calls['labels']:,} for labels",
    )
    for failure in card["failures"]:
        reason = f"task {failure['task']}, policy {failure['policy']} failed: {failure['reason']}"
        say(console, reason, style="yellow")
