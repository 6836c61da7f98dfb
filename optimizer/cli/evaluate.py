"""``mnemotune evaluate``: score one policy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Scenario
from ...env import Episode, Evaluation, Evaluator
from ...env.dialogue.interchange import write_results
from ...env.dialogue.transcript import Transcript, read_transcripts
from ...env.episode import write_episodes
from ...policies.files import load_policy
from ...policies.lm.providers import model_named
from ...policies.policy import MemoryPolicy
from ..config import Config, load_config, parse_config
from ..models import Models, open_models, priced, protocol_of
from ..search.cores import evaluate_on, processes_for
from ..views.table import people, score_table

ModelOption = Annotated[
    str | None, typer.Option("--model", help="`embedded`, `openai:NAME`, or what a package registers.")
]


def evaluate_command(
    policy: Annotated[str, typer.Argument(help="A preset (native, rag, awe, awi) or a policy file.")],
    data: Annotated[str, typer.Option("--data", help="A file, a folder, a bundled set, or generated:N@SEED.")] = "base",
    model: ModelOption = None,
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
    settings = settings_of(config, model)
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
    result = {**evaluation.as_json(policy), "model": settings.model, "data": data, "seed": seed}
    result["off_policy"] = None if off_policy is None else str(off_policy)
    if out is not None:
        write_episodes(out, evaluation.episodes)
        (out / "result.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if export is not None:
        name, used = Path(policy).stem, model_named(settings.model).model
        write_results(export, evaluation, scenarios, name=name, model=used, protocol=protocol_of(settings))
    _show(policy, result, as_json=as_json, console=console)
    if not evaluation.users:
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


def settings_of(path: Path | None, model: str | None) -> Config:
    """Return a config for models and protocol; what belongs to a search is not used."""
    unused = {"data": "", "splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": "native"}
    overrides = [] if model is None else [f"model={json.dumps(model)}"]
    if path is None:
        return priced(parse_config("{}", where="--model", overrides=overrides, defaults=unused))
    return priced(load_config(path, overrides=overrides, defaults=unused))


def _show(policy: str, result: dict[str, Any], *, as_json: bool, console: Console) -> None:
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False))
    else:
        Console().print(score_table({policy: result}, title=f"{people(result['users'])}, model: {result['model']}"))
    for line in _remarks(result):
        console.print(line, style="yellow", highlight=False, markup=False)


def _remarks(result: dict[str, Any]) -> Iterator[str]:
    """Say what a reader of the scores has to know."""
    calls, cached = (sum(result[what].values()) for what in ("calls", "cached"))
    if model_named(result["model"]).remote:
        cost = "not known (set endpoint.prices)" if result["cost_usd"] is None else f"${result['cost_usd']:.2f}"
        yield f"{calls:,} calls with the upper bound's, {cached:,} of them from the cache; cost: {cost}"
    if result["critical_path_s"]:
        longest, wall = result["critical_path_s"], result["wall_s"]
        yield (
            f"wall time {wall:.1f} s, {wall / longest:.2f} x the critical path: {longest:.1f} s of "
            f"{result['critical_path_calls']:,} calls, each of which needs the answer of the one before"
        )
    if result["upper_bound"] is not None and result["upper_bound"] <= result["random"]:
        yield (
            f"the upper bound, {result['upper_bound']:.3f}, is not above chance, {result['random']:.3f}: "
            "the model fails even when told the user's state"
        )
    if result["unparsable"]:
        yield f"{result['unparsable']:,} answers could not be read, and count as wrong"
    if result["failed_writes"]:
        yield f"{result['failed_writes']:,} writes could not be read, and left the memory as it was"
    if result["failed_rewrites"]:
        yield f"{result['failed_rewrites']:,} rewritten prompts could not be read, and stayed as they were"
    if result["oracle"]:
        yield "an oracle, whose prompts are told the states that will be asked for: an upper limit, nothing to ship"
    for failure in result["failures"]:
        yield f"user {failure['user']} failed: {failure['reason']}"
