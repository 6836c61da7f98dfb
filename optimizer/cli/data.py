"""``mnemotune data``: make and check scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ...data.dialogue.sizes import MOST_USERS, SIZES, Size
from . import options
from .data_import import import_command
from .output import print_json

if TYPE_CHECKING:
    from ...policies.lm import Ledger
    from ..config import Config

app = typer.Typer(no_args_is_help=True)
app.command("import")(import_command)

USERS, SEED = 20, 0


@app.command("generate")
def generate_command(
    out: Annotated[Path, typer.Option("--out", help="The JSON file to write; with --track, JSON lines.")],
    track: options.Track = None,
    data: Annotated[
        str | None, typer.Option("--data", help="With --track: what to make, for example generated:200@7.")
    ] = None,
    users: Annotated[
        int | None, typer.Option("--users", min=1, max=MOST_USERS, help=f"How many users; {USERS} by default.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help=f"The same seed makes the same users; {SEED} by default.")
    ] = None,
    size: Annotated[
        str | None, typer.Option("--size", help=f"A bundled set, to the byte: {', '.join(SIZES)}; its users and seed.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Make them with a language model instead of the library.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A config for model, endpoint and generation.")
    ] = None,
    personas: Annotated[
        Path | None, typer.Option("--personas", help="People to make users of: .json, .jsonl, .csv or .parquet.")
    ] = None,
    parts: Annotated[
        Path | None, typer.Option("--parts", help="The folder of what is finished; OUT.parts by default.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Make simulated users, or another track's tasks: from what is here, or users with a language model.

    Making users with a model can be stopped and goes on.

    Example: mnemotune data generate --users 20 --seed 7 --out users.json
    """
    from ...data.dialogue.generator import scenarios_of
    from ...data.json_files import write_json
    from ...env.dialogue.generation.generation import GenerationProgress
    from ..generate import Order, make_users, parts_of
    from ..views.table import say

    if track not in {None, "dialogue"}:
        if any(given is not None for given in (users, seed, size, model, config, personas, parts)) or as_json:
            raise typer.BadParameter("only --data and --out go with another track", param_hint="--track")
        return _write_tasks(track, data, out)
    if data is not None:
        raise typer.BadParameter("users are made by --users and --seed, or --size", param_hint="--data")
    if model is None and config is None:
        if personas is not None or parts is not None or as_json:
            raise typer.BadParameter("--personas, --parts and --json need --model or --config", param_hint="--model")
        chosen = _size(size, users, seed)
        write_json(out, [scenario.model_dump(mode="json") for scenario in scenarios_of(chosen)])
        return typer.echo(f"{chosen.users} users written to {out}", err=True)
    if size is not None:
        raise typer.BadParameter("it is made from the library; leave --model and --config out", param_hint="--size")
    order = Order(_settings(config, model, users, seed), out, parts_of(out) if parts is None else parts, personas)
    console = Console(stderr=True)
    introduction = (
        f"{order.generation.users} users with {order.config.model}: about {order.expected_calls:,} calls when every "
        f"reply is right the first time, {order.most_calls:,} at the very most"
    )
    with console.status("") as status:
        finished = 0

        def tell(progress: GenerationProgress, ledger: Ledger) -> None:
            nonlocal finished
            if progress == GenerationProgress(0, 0):
                return say(console, introduction)
            calls = ledger.total.calls
            line = f"{progress.users}/{order.generation.users} users, {progress.stages:,} stages, {calls:,} calls"
            status.update(line)
            if progress.users > finished and not console.is_terminal:
                typer.echo(line, err=True)
            finished = progress.users
            return None

        delivery = make_users(order, tell=tell)
    values = delivery.as_json()
    if as_json:
        print_json(values)
    for user in delivery.generated.dropped:
        say(console, f"user {user.user} dropped at {user.stage}: {user.reason}", style="yellow")
    cost = "not known (set endpoint.prices)" if values["cost_usd"] is None else f"${values['cost_usd']:.2f}"
    where = f"users written to {values['out']}" if values["users"] else f"users, {values['out']} is not written"
    say(
        console,
        f"{len(values['users'])} of {values['asked']} {where}: {values['calls']:,} calls, "
        f"{values['cached']:,} of them from the cache; cost: {cost}; {values['wall_s']:.1f} s",
    )
    if not delivery.complete:
        say(console, f"the same command tries the dropped users again; what is finished is in {values['parts']}")
        raise typer.Exit(1)
    return None


def _write_tasks(name: str | None, source: str | None, out: Path) -> None:
    from ...data.folded import opened
    from ...data.task import grouped
    from ...data.task_files import write_tasks
    from ...data.tools.load import ACROSS
    from .common import data_of, load_tasks, track_and_settings

    track, _ = track_and_settings(None, track=name)
    tasks = load_tasks(track, data_of(track, source), None)
    if track.name == "tools" and str(data_of(track, source)).startswith(("tau2:", ACROSS)):
        raise typer.BadParameter("a checkout's tasks are played from it, by --data tau2:PATH", param_hint="--data")
    write_tasks(out, map(opened, tasks), track=track.name)
    typer.echo(f"{len(tasks)} tasks of {len(grouped(tasks))} {track.noun}s written to {out}", err=True)


def _size(name: str | None, users: int | None, seed: int | None) -> Size:
    if name is None:
        return Size(USERS if users is None else users, SEED if seed is None else seed)
    if name not in SIZES:
        raise typer.BadParameter(f"{name} is none of {', '.join(SIZES)}", param_hint="--size")
    if users is not None or seed is not None:
        reason = "it has users and a seed of its own; leave --users and --seed out"
        raise typer.BadParameter(reason, param_hint="--size")
    return SIZES[name]


def _settings(config: Path | None, model: str | None, users: int | None, seed: int | None) -> Config:
    from ..config import GenerationConfig
    from .common import settings_of

    settings = settings_of(config, model=model)
    given = {"users": users, "seed": seed}
    section = settings.generation or GenerationConfig()
    changed = section.model_copy(update={name: value for name, value in given.items() if value is not None})
    return settings.model_copy(update={"generation": changed})


@app.command("check")
def check_command(
    source: Annotated[str, typer.Argument(help="A file, a folder, a bundled set, generated:N@SEED or hf:OWNER/NAME.")],
    track: options.Track = None,
) -> None:
    """Load users, or another track's tasks; say what is wrong with them, or what they hold.

    Example: mnemotune data check users.json
    """
    from ...data.dialogue.load import load_scenarios
    from ...data.dialogue.scenario import ScenarioError

    if track not in {None, "dialogue"}:
        return _check_tasks(track, source)
    scenarios = load_scenarios(source)
    wrong = [f"{source}: user {scenario.id}: {line}" for scenario in scenarios for line in scenario.contradictions()]
    if wrong:
        raise ScenarioError("\n".join(wrong))
    for scenario in scenarios:
        sessions = sum(len(period.sessions) for period in scenario.periods)
        unscored = sum(q.gold(period.state) is None for period in scenario.periods for q in scenario.qas)
        note = f", {unscored} questions without a right answer in their period" if unscored else ""
        typer.echo(
            f"{scenario.id}: {len(scenario.periods)} periods, {sessions} sessions, {len(scenario.qas)} questions{note}"
        )
    return typer.echo(f"{len(scenarios)} users, no errors")


def _check_tasks(name: str | None, source: str) -> None:
    from ...data.task import grouped
    from .common import load_tasks, track_and_settings

    track, _ = track_and_settings(None, track=name)
    tasks = load_tasks(track, source, None)
    for task in tasks:
        stages = f"{task.stages} {track.stage_noun}s"
        typer.echo(f"{task.id} ({task.group}): {stages}, {len(task.facts)} facts, {len(task.checks)} checks")
    typer.echo(f"{len(tasks)} tasks of {len(grouped(tasks))} {track.noun}s, no errors")
