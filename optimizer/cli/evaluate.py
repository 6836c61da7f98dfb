"""``mnemotune evaluate``: score one policy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Scenario
from ...env import Episode, Evaluation, Evaluator, Summary
from ...env.dialogue.interchange import write_results
from ...env.dialogue.transcript import Transcript, read_transcripts
from ...env.episode import write_episodes
from ...policies.files import load_policy
from ...policies.lm.providers import model_named
from ...policies.policy import MemoryPolicy
from ..config import Config, load_config, parse_config
from ..models import Models, embedder_remark, open_models, priced, protocol_of
from ..search.cores import evaluate_on, processes_for
from ..views.table import people, score_table

ModelOption = Annotated[
    str | None, typer.Option("--model", help="`embedded`, `openai:NAME`, or what a package registers.")
]
EmbedderOption = Annotated[
    str | None,
    typer.Option("--embedder", help="Searches memories: `lexical:DIMENSIONS`, `openai:NAME` or `fastembed:NAME`."),
]


def evaluate_command(
    policy: Annotated[str, typer.Argument(help="A preset (native, rag, awe, awi) or a policy file.")],
    data: Annotated[str, typer.Option("--data", help="A file, a folder, a bundled set, or generated:N@SEED.")] = "base",
    model: ModelOption = None,
    embedder: EmbedderOption = None,
    config: Annotated[Path | None, typer.Option("--config", help="A config for endpoint, rounds, templates.")] = None,
    users: Annotated[str | None, typer.Option("--users", help="Only these users: ID,ID,...")] = None,
    off_policy: Annotated[
        Path | None, typer.Option("--off-policy", help="Replay the talks recorded in this folder instead of talking.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed asks a real model anew.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for results, transcripts and the cache.")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="A folder for AMemGym's result files, for its own code to read.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Score a memory policy: accuracy, memory score, where memory fails, calls and tokens."""
    settings = settings_of(config, model, embedder)
    chosen = load_policy(policy, templates=settings.templates)
    scenarios = load_scenarios(data, users=None if users is None else [user.strip() for user in users.split(",")])
    transcripts = None if off_policy is None else read_transcripts(off_policy)
    console = Console(stderr=True)
    with open_models(settings, folder=out, repeat=seed) as models, console.status("") as status:
        finished = 0

        def done(_: object) -> None:
            nonlocal finished
            finished += 1
            status.update(f"{finished}/{len(scenarios)} users")

        processes = processes_for(models.cast, len(scenarios), per_core=models.per_core)
        if processes > 1:
            evaluation = evaluate_on(processes, models.cast, chosen, scenarios, transcripts=transcripts, done=done)
        else:
            evaluation = asyncio.run(_evaluate(models, chosen, scenarios, transcripts, done))
    summary, replayed = Summary.of(evaluation, name=policy), None if off_policy is None else str(off_policy)
    remark = embedder_remark(settings) if chosen.searches else None
    used = {"model": settings.model, "embedder": settings.embedder, "remark": remark}
    result = {**summary.as_json(), **used, "data": data, "seed": seed, "off_policy": replayed}
    if out is not None:
        write_episodes(out, evaluation.episodes)
        (out / "result.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if export is not None:
        name, model = Path(policy).stem, model_named(settings.model).model
        write_results(export, evaluation, scenarios, name=name, model=model, protocol=protocol_of(settings))
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False))
    else:
        Console().print(score_table({policy: summary}, title=f"{people(summary.groups)}, model: {settings.model}"))
    for line in [*_remarks(summary, model=settings.model), *([remark] if remark else [])]:
        console.print(line, style="yellow", highlight=False, markup=False)
    if not summary.groups:
        raise typer.Exit(1)


async def _evaluate(
    models: Models,
    policy: MemoryPolicy,
    scenarios: Sequence[Scenario],
    transcripts: Mapping[str, Transcript] | None,
    done: Callable[[Episode], None],
) -> Evaluation:
    try:
        return await Evaluator(models.cast).evaluate(policy, scenarios, transcripts=transcripts, done=done)
    finally:
        await models.aclose()


def settings_of(path: Path | None, model: str | None, embedder: str | None = None) -> Config:
    """Return a config for models and protocol; what belongs to a search is not used."""
    unused = {"data": "", "splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": "native"}
    given = {"model": model, "embedder": embedder}
    overrides = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    if path is None:
        return priced(parse_config("{}", where="command line", overrides=overrides, defaults=unused))
    return priced(load_config(path, overrides=overrides, defaults=unused))


def _remarks(summary: Summary, *, model: str) -> Iterator[str]:
    """Say what a reader of the scores has to know."""
    total, longest = summary.spend.total, summary.critical_path
    if model_named(model).remote:
        cost = "not known (set endpoint.prices)" if total.cost_usd is None else f"${total.cost_usd:.2f}"
        yield f"{total.calls:,} calls with the upper bound's, {total.cached:,} of them from the cache; cost: {cost}"
    if longest.seconds:
        yield (
            f"wall time {summary.wall_s:.1f} s, {summary.wall_s / longest.seconds:.2f} x the critical path: "
            f"{longest.seconds:.1f} s of {longest.calls:,} calls, each of which needs the answer of the one before"
        )
    if summary.ceiling <= summary.floor:
        yield (
            f"the upper bound, {summary.ceiling:.3f}, is not above chance, {summary.floor:.3f}: "
            "the model fails even when told the user's state"
        )
    if summary.unparsable:
        yield f"{summary.unparsable:,} answers could not be read, and count as wrong"
    if summary.failed_writes:
        yield f"{summary.failed_writes:,} writes could not be read, and left the memory as it was"
    if summary.failed_rewrites:
        yield f"{summary.failed_rewrites:,} rewritten prompts could not be read, and stayed as they were"
    if summary.oracle:
        yield "an oracle, whose prompts are told the states that will be asked for: an upper limit, nothing to ship"
    for group, reason in summary.failures.items():
        yield f"user {group} failed: {reason}"
