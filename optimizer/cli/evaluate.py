"""``mnemotune evaluate``: score one policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import aclosing, nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from . import options
from .output import print_json

if TYPE_CHECKING:
    from ...env import Evaluation, Summary, Track

LOW_CEILING = 0.5
"""Whoever is given exactly what it needs, and scores less than that, fails at something else than memory."""


def evaluate_command(
    policy: Annotated[str, typer.Argument(help="A preset (native, rag, awe, awi) or a policy file.")],
    data: options.Data = None,
    track: options.Track = None,
    model: options.Model = None,
    embedder: options.Embedder = None,
    config: options.Config = None,
    users: options.Users = None,
    context_tokens: options.ContextTokens = None,
    off_policy: Annotated[
        Path | None, typer.Option("--off-policy", help="Replay the talks recorded in this folder instead of talking.")
    ] = None,
    window: options.Window = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed asks a real model anew.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for results, transcripts and the cache.")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="A folder for AMemGym's result files, for its own code to read.")
    ] = None,
    tracking: Annotated[
        str | None, typer.Option("--tracking", help="MLflow's store to log the scores in: sqlite:///runs/mlflow.db.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Score a memory policy: accuracy, memory score, where memory fails, calls and tokens.

    Example: mnemotune evaluate awe --data generated:8@1 --context-tokens 1000
    """
    from ...data.json_files import write_json
    from ...data.task import grouped
    from ...env import DialogueTrack, Evaluator, Summary
    from ...env.dialogue.interchange import check_names, write_results
    from ...env.dialogue.track import scenario_of
    from ...env.episode import write_episodes
    from ...env.summary import score_json
    from ...env.track import most_calls
    from ...policies.files import WINDOW
    from ...policies.lm.providers import model_named
    from ..config import ConfigError
    from ..models import embedder_remark, open_models
    from ..stores import Tracking
    from ..views.table import heading, kinds_table, number, over_window, print_table, say, score_table
    from ..workers import open_pool, runner_of
    from .common import data_of, load_tasks, policies_named, run_with, track_and_settings

    given: dict[str, str | int | None] = {"model": model, "embedder": embedder, "track": track}
    kind, settings = track_and_settings(config, **given, context_tokens=context_tokens)
    policies = policies_named([policy], settings, window=window)
    if out is not None:
        from ..search.outcome import check_no_run  # imported late: Optuna takes a while

        check_no_run(out)
    if export is not None and not isinstance(kind, DialogueTrack):
        raise ConfigError(f"--export: AMemGym's files are of the dialogue track, not of {kind.name}")
    store = Tracking(uri=tracking).whole_uri
    if store is not None:
        from ..views.tracking.store import check_store

        check_store(store)
    data = data_of(kind, data)
    tasks = load_tasks(kind, data, users)
    exported_as = {"name": Path(policy).stem, "model": model_named(settings.model).model}
    if export is not None:
        check_names(export, users=[task.id for task in tasks], **exported_as)
    replays = None if off_policy is None else kind.replays(off_policy)
    console = Console(stderr=True)
    with open_models(settings, folder=out, repeat=seed) as opened, console.status("") as status:
        every = tasks if users is None else load_tasks(kind, data, None)  # so that a group has the same reader always
        groups, models = len(grouped(tasks)), opened.dealt(grouped(every))
        finished = count(1)

        def done(_: object) -> None:
            status.update(f"{next(finished)} of {len(tasks) * len(policies)} episodes")

        calls = most_calls(kind, tasks, policies.values())
        pool = open_pool(settings, models, folder=out, calls=calls, most=groups, repeat=seed)

        async def evaluate_all() -> dict[str, Evaluation]:
            """Evaluate policies one after another, by name; the first is billed for the bounds."""
            async with nullcontext() if pool is None else aclosing(pool):
                runner = runner_of(pool, kind, models.cast, settings, budget=None)
                evaluator = Evaluator(kind, models.cast, runner=runner)
                return {
                    name: await evaluator.evaluate(each, tasks, replays=replays, done=done)
                    for name, each in policies.items()
                }

        evaluations = run_with(models, evaluate_all())
    evaluation, rows = evaluations[policy], {name: Summary.of(each, name=name) for name, each in evaluations.items()}
    summary, replayed = rows[policy], None if off_policy is None else str(off_policy)
    remark, tokens = embedder_remark(settings) if policies[policy].searches else None, settings.context_tokens
    result = {**summary.as_json(), "model": settings.model, "embedder": settings.embedder, "remark": remark}
    result |= {"data": data, "seed": seed, "off_policy": replayed, "context_tokens": tokens}
    result |= {"track": kind.name, "agent": kind.agent or None}
    if WINDOW in rows:
        result |= {"window": rows[WINDOW].as_json(), "over_window": score_json(over_window(rows)[policy])}
    if out is not None:
        write_episodes(out, evaluation.episodes)
        write_json(out / "result.json", result, indent=2)
    if export is not None and isinstance(kind, DialogueTrack):
        write_results(export, evaluation, list(map(scenario_of, tasks)), **exported_as, protocol=kind.protocol)
    if as_json:
        print_json(result)
    else:
        title = heading(summary.groups, kind, model=settings.model, context_tokens=tokens)
        print_table(Console(), score_table(rows, title=title))
        if (kinds := kinds_table(summary)) is not None:
            print_table(Console(), kinds)
        if len(summary.by_reader) > 1:
            each = ", ".join(f"{reader} {number(score.mean)}" for reader, score in summary.by_reader.items())
            say(console, f"{policy} by reader, named after the model that it was fitted to: {each}")
    say(console, *_remarks(rows, policy, model=settings.model, track=kind), style="yellow")
    say(console, *([remark] if remark else []), style="yellow")
    if store is not None:  # last: a store that fails now loses nothing of what is shown
        from ..views.tracking.scores import log_evaluation

        about = {name: result[name] for name in ("track", "data", "model", "embedder", "context_tokens", "seed")}
        log_evaluation(store, policies[policy], rows, policy, about=about)
    if not summary.groups:
        raise typer.Exit(1)


def _remarks(rows: Mapping[str, Summary], policy: str, *, model: str, track: Track) -> Iterator[str]:
    """Say what a reader of a policy's scores has to know; the other rows are what it is compared with."""
    from ...policies.files import WINDOW
    from ...policies.lm.ledger import merged
    from ...policies.lm.providers import model_named
    from ..views.table import over_window, reply_notes, unscored_note, with_interval

    summary, total, over = rows[policy], merged([row.spend for row in rows.values()]).total, over_window(rows)[policy]
    longest = summary.critical_path
    if not math.isnan(over.mean):
        yield f"{summary.policy} - {WINDOW}: {with_interval(over)}, paired by {track.noun}"
    if model_named(model).remote:
        cost = "not known (set endpoint.prices)" if total.cost_usd is None else f"${total.cost_usd:.2f}"
        yield f"{total.calls:,} calls with the bounds', {total.cached:,} of them from the cache; cost: {cost}"
    yield from reply_notes(merged([row.spend for row in rows.values()]))
    if longest.seconds:
        yield (
            f"wall time {summary.wall_s:.1f} s, {summary.wall_s / longest.seconds:.2f} x the critical path: "
            f"{longest.seconds:.1f} s of {longest.calls:,} calls, each of which needs the answer of the one before"
        )
    if summary.ceiling <= summary.floor:
        fails = "the model fails even when it is given exactly what it needs"
        reason = fails if summary.ceiling < LOW_CEILING else "memory is not needed here"
        yield f"the ceiling, {summary.ceiling:.3f}, is not above the floor, {summary.floor:.3f}: {reason}"
    yield from unscored_note({summary.policy: summary}, track)
    for unread, what in (
        (summary.unparsable, "answers could not be read, and count as wrong"),
        (summary.failed_writes, "writes had a reply that could not be read, which changed nothing"),
        (summary.failed_rewrites, "rewritten prompts could not be read, and stayed as they were"),
    ):
        if unread:
            yield f"{unread:,} {what}"
    if summary.oracle:
        yield "an oracle, whose prompts are told the states that will be asked for: an upper limit, nothing to ship"
    for name, row in rows.items():
        for group, reason in row.failures.items():
            what = "was lost" if group in row.lost else "was ended by the policy, and what is missing counts as wrong"
            yield f"{name}: {track.noun} {group} {what}: {reason}"
