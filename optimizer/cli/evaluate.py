"""``mnemotune evaluate``: score one policy."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...data.task import Task
from ...env import DialogueTrack, Episode, Evaluation, Summary, Track
from ...env.dialogue.interchange import write_results
from ...env.dialogue.track import scenario_of
from ...env.episode import write_episodes
from ...env.summary import score_json
from ...policies.files import WINDOW, load_policy
from ...policies.lm.base import merged
from ...policies.lm.providers import model_named
from ...policies.policy import MemoryPolicy
from ..config import Config, ConfigError, load_config, parse_config
from ..models import Models, embedder_remark, open_models, priced, track_of
from ..search.cores import evaluate_all, evaluate_on, processes_for
from ..views.table import heading, over_window, score_table, unscored_note, with_interval

ModelOption = Annotated[
    str | None, typer.Option("--model", help="`embedded`, `openai:NAME`, or what a package registers.")
]
EmbedderOption = Annotated[
    str | None,
    typer.Option("--embedder", help="Searches memories: `lexical:DIMENSIONS`, `openai:NAME` or `fastembed:NAME`."),
]

ContextTokensOption = Annotated[
    int | None, typer.Option("--context-tokens", min=1, help="Most tokens of memory before a call; without, no limit.")
]
WindowOption = Annotated[
    bool, typer.Option(help="Also score the newest messages that fit, nothing written, to compare with.")
]
TrackOption = Annotated[str | None, typer.Option("--track", help="`dialogue`, or what a package registers.")]


def evaluate_command(
    policy: Annotated[str, typer.Argument(help="A preset (native, rag, awe, awi) or a policy file.")],
    data: Annotated[str, typer.Option("--data", help="A file, a folder, a bundled set, or generated:N@SEED.")] = "base",
    track: TrackOption = None,
    model: ModelOption = None,
    embedder: EmbedderOption = None,
    config: Annotated[Path | None, typer.Option("--config", help="A config for endpoint, rounds, templates.")] = None,
    users: Annotated[str | None, typer.Option("--users", help="Only these groups: ID,ID,...")] = None,
    context_tokens: ContextTokensOption = None,
    off_policy: Annotated[
        Path | None, typer.Option("--off-policy", help="Replay the talks recorded in this folder instead of talking.")
    ] = None,
    window: WindowOption = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed asks a real model anew.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for results, transcripts and the cache.")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="A folder for AMemGym's result files, for its own code to read.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Score a memory policy: accuracy, memory score, where memory fails, calls and tokens."""
    settings = settings_of(config, model=model, embedder=embedder, track=track, context_tokens=context_tokens)
    chosen, kind = load_policy(policy, templates=settings.templates), track_of(settings)
    reference = load_policy(WINDOW, templates=settings.templates)
    policies = {policy: chosen} | ({WINDOW: reference} if window and reference != chosen else {})
    if export is not None and not isinstance(kind, DialogueTrack):
        raise ConfigError(f"--export: AMemGym's files are of the dialogue track, not of {kind.name}")
    tasks = load_tasks(kind, data, users)
    replays = None if off_policy is None else kind.replays(off_policy)
    console = Console(stderr=True)
    with open_models(settings, folder=out, repeat=seed) as models, console.status("") as status:
        finished = 0

        def done(_: object) -> None:
            nonlocal finished
            finished += 1
            status.update(f"{finished} of {len(tasks) * len(policies)} episodes")

        processes = processes_for(kind, len(tasks), per_core=models.per_core)
        if processes > 1:
            evaluations = evaluate_on(processes, kind, models.cast, policies, tasks, replays=replays, done=done)
        else:
            evaluations = asyncio.run(_evaluate(kind, models, policies, tasks, replays, done))
    evaluation, rows = evaluations[policy], {name: Summary.of(each, name=name) for name, each in evaluations.items()}
    summary, replayed = rows[policy], None if off_policy is None else str(off_policy)
    remark = embedder_remark(settings) if chosen.searches else None
    used = {"model": settings.model, "embedder": settings.embedder, "remark": remark}
    result = {**summary.as_json(), **used, "data": data, "seed": seed, "off_policy": replayed}
    result["context_tokens"] = settings.context_tokens
    if WINDOW in rows:
        result |= {"window": rows[WINDOW].as_json(), "over_window": score_json(over_window(rows)[policy])}
    if out is not None:
        write_episodes(out, evaluation.episodes)
        (out / "result.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if export is not None and isinstance(kind, DialogueTrack):
        name, model, scenarios = Path(policy).stem, model_named(settings.model).model, list(map(scenario_of, tasks))
        write_results(export, evaluation, scenarios, name=name, model=model, protocol=kind.protocol)
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False))
    else:
        tokens = settings.context_tokens
        title = heading(summary.groups, kind.noun, model=settings.model, context_tokens=tokens)
        Console().print(score_table(rows, title=title))
    remarks = _remarks(rows, policy, model=settings.model, track=kind)
    for line in [*remarks, *([remark] if remark else [])]:
        console.print(line, style="yellow", highlight=False, markup=False)
    if not summary.groups:
        raise typer.Exit(1)


async def _evaluate(
    track: Track,
    models: Models,
    policies: Mapping[str, MemoryPolicy],
    tasks: Sequence[Task],
    replays: Mapping[str, Episode] | None,
    done: Callable[[Episode], None],
) -> dict[str, Evaluation]:
    try:
        return await evaluate_all(track, models.cast, policies, tasks, replays, done=done)
    finally:
        await models.aclose()


def load_tasks(track: Track, data: str, groups: str | None) -> Sequence[Task]:
    """Return the tasks of a source, those of ``groups`` where some are named. Raises TaskError."""
    return track.load(data, groups=None if groups is None else [group.strip() for group in groups.split(",")])


def settings_of(path: Path | None, **given: str | int | None) -> Config:
    """Return a config with what the command line has ``given``; what belongs to a search is not used."""
    unused = {"data": "", "splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": "native"}
    overrides = [f"{name}={json.dumps(value)}" for name, value in given.items() if value is not None]
    if path is None:
        return priced(parse_config("{}", where="command line", overrides=overrides, defaults=unused))
    return priced(load_config(path, overrides=overrides, defaults=unused))


def _remarks(rows: Mapping[str, Summary], policy: str, *, model: str, track: Track) -> Iterator[str]:
    """Say what a reader of a policy's scores has to know; the other rows are what it is compared with."""
    summary, total, over = rows[policy], merged([row.spend for row in rows.values()]).total, over_window(rows)[policy]
    longest = summary.critical_path
    if not math.isnan(over.mean):
        yield f"{summary.policy} - {WINDOW}: {with_interval(over)}, paired by {track.noun}"
    if model_named(model).remote:
        cost = "not known (set endpoint.prices)" if total.cost_usd is None else f"${total.cost_usd:.2f}"
        yield f"{total.calls:,} calls with the bounds', {total.cached:,} of them from the cache; cost: {cost}"
    if longest.seconds:
        yield (
            f"wall time {summary.wall_s:.1f} s, {summary.wall_s / longest.seconds:.2f} x the critical path: "
            f"{longest.seconds:.1f} s of {longest.calls:,} calls, each of which needs the answer of the one before"
        )
    if summary.ceiling <= summary.floor:
        yield (
            f"the ceiling, {summary.ceiling:.3f}, is not above the floor, {summary.floor:.3f}: "
            "the model fails even when it is given exactly what it needs"
        )
    yield from unscored_note({summary.policy: summary}, stage_noun=track.stage_noun)
    if summary.unparsable:
        yield f"{summary.unparsable:,} answers could not be read, and count as wrong"
    if summary.failed_writes:
        yield f"{summary.failed_writes:,} writes could not be read, and left the memory as it was"
    if summary.failed_rewrites:
        yield f"{summary.failed_rewrites:,} rewritten prompts could not be read, and stayed as they were"
    if summary.oracle:
        yield "an oracle, whose prompts are told the states that will be asked for: an upper limit, nothing to ship"
    for name, row in rows.items():
        for group, reason in row.failures.items():
            what = "was lost" if group in row.lost else "was refused, and what is missing counts as wrong"
            yield f"{name}: {track.noun} {group} {what}: {reason}"
