"""``mnemotune ranks``: on-policy against off-policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from . import options
from .output import print_json

if TYPE_CHECKING:
    from ...env import Evaluation
    from ..search.ranks import Ranked


def ranks_command(
    policies: Annotated[list[str], typer.Argument(help="Presets or policy files, two or more.")],
    data: options.Data = None,
    track: options.Track = None,
    context_tokens: options.ContextTokens = None,
    model: options.Model = None,
    embedder: options.Embedder = None,
    config: options.Config = None,
    window: options.Window = True,
    off_policy: Annotated[
        Path | None, typer.Option("--off-policy", help="Recorded talks; without, the first policy's are replayed.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for the result and the cache.")] = None,
    as_json: options.Json = False,
) -> None:
    """Rank policies by their own talks, and by the same recorded talks for all.

    Example: mnemotune ranks rag awe awi --data generated:8@1
    """
    from ...data.json_files import write_json
    from ...data.task import grouped
    from ...env import Evaluator
    from ...env.episode import complete
    from ..config import ConfigError
    from ..models import embedder_remark, open_models
    from ..search.ranks import rank, shared_groups
    from ..views.table import counted, heading, print_table, say
    from .common import data_of, load_tasks, policies_named, run_with, track_and_settings

    if len(set(policies)) < 2:
        raise ConfigError("ranks: name two or more different policies, for example `mnemotune ranks native rag awi`")
    given: dict[str, str | int | None] = {"model": model, "embedder": embedder, "track": track}
    kind, settings = track_and_settings(config, **given, context_tokens=context_tokens)
    chosen = policies_named(policies, settings, window=window)
    data = data_of(kind, data)
    tasks = load_tasks(kind, data, None)
    recorded = None if off_policy is None else kind.replays(off_policy)
    every, unrecorded = grouped(tasks), list[str]()  # a group has the same reader whichever are recorded
    if recorded is not None:
        unrecorded = [group.id for group in every if any(task.id not in recorded for task in group.tasks)]
        tasks = [task for task in tasks if task.group not in unrecorded]
    if not tasks:
        raise ConfigError(f"--off-policy {off_policy}: has whole talks of none of these {kind.noun}s")
    console = Console(stderr=True)
    with open_models(settings, folder=out) as opened, console.status(""):
        models = opened.dealt(every)
        evaluator = Evaluator(kind, models.cast)

        async def both_ways() -> tuple[dict[str, Evaluation], dict[str, Evaluation]]:
            on = {name: await evaluator.evaluate(p, tasks) for name, p in chosen.items()}
            replays = recorded if recorded is not None else complete(on[policies[0]].episodes)
            heard = [task for task in tasks if task.id in replays]
            return on, {name: await evaluator.evaluate(p, heard, replays=replays) for name, p in chosen.items()}

        on, off = run_with(models, both_ways())
    ranked, shared = rank(on, off), shared_groups([*on.values(), *off.values()])
    replayed, groups = f"{policies[0]}'s talks" if off_policy is None else str(off_policy), len(shared)
    of_embedder = embedder_remark(settings) if any(policy.searches for policy in chosen.values()) else None
    left_out = len(grouped(tasks)) + len(unrecorded) - groups
    of_groups = f"{counted(left_out, kind.noun)} left out, whose talks are not recorded or were lost"
    remark = "; ".join(filter(None, [of_groups if left_out else None, of_embedder])) or None
    result = {
        "data": data,
        "model": settings.model,
        "embedder": settings.embedder,
        "context_tokens": settings.context_tokens,
        "replayed": replayed,
        "groups": groups,
        "remark": remark,
        "policies": [row.as_json() for row in ranked],
    }
    if out is not None:
        write_json(out / "ranks.json", result, indent=2)
    if as_json:
        print_json(result)
    else:
        title = heading(groups, kind, model=settings.model, context_tokens=settings.context_tokens)
        print_table(Console(), _table(ranked, title=f"{title}; off-policy: {replayed} replayed"))
    say(console, *([remark] if remark else []), style="yellow")


def _table(ranked: Sequence[Ranked], *, title: str) -> Table:
    from ..views.table import LONGEST_NAME, number, plain_table, short, with_interval

    columns = ("policy", "on-policy", "rank", "off-policy", "rank", "off - on")
    rows = []
    for row in ranked:
        on, off = number(row.on_policy.mean), number(row.off_policy.mean)
        name, gain = short(row.policy, LONGEST_NAME), with_interval(row.difference)
        rows.append((name, on, str(row.on_rank), off, str(row.off_rank), gain))
    return plain_table(columns, rows, left=["off - on"], title=title)
