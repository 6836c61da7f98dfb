"""``mnemotune evaluate``: score one policy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ...data.load import load_scenarios
from ...env import Evaluation, Evaluator
from ...env.episode import write_episodes
from ...policies.policy import load_policy
from ..config import Config, load_config, parse_config
from ..models import open_models
from ..table import people, score_table


def evaluate_command(
    policy: Annotated[str, typer.Argument(help="A preset (native, rag, awe, awi) or a policy file.")],
    data: Annotated[str, typer.Option("--data", help="A file, a folder, a bundled set, or generated:N@SEED.")] = "base",
    model: Annotated[str | None, typer.Option("--model", help="`embedded` or `openai:NAME`.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="A config for endpoint, rounds, templates.")] = None,
    users: Annotated[str | None, typer.Option("--users", help="Only these users: ID,ID,...")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed asks a real model anew.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for result.json and episodes.jsonl.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Score a memory policy on-policy: accuracy, memory score, where memory fails, calls and tokens."""
    chosen = load_policy(policy)
    scenarios = load_scenarios(data, users=None if users is None else [user.strip() for user in users.split(",")])
    settings = _settings(config, model)
    console = Console(stderr=True)
    with open_models(settings, folder=out, repeat=seed) as models, console.status("") as status:
        finished = 0

        def done(_: object) -> None:
            nonlocal finished
            finished += 1
            status.update(f"{finished}/{len(scenarios)} users")

        evaluation = asyncio.run(_evaluate(Evaluator(models.cast), chosen, scenarios, done))
    result = {**evaluation.as_json(policy), "model": settings.model, "data": data, "seed": seed}
    if out is not None:
        write_episodes(out, evaluation.episodes)
        (out / "result.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    _show(policy, result, as_json=as_json, console=console)
    if not evaluation.users:
        raise typer.Exit(1)


async def _evaluate(evaluator: Evaluator, policy: Any, scenarios: Any, done: Any) -> Evaluation:
    return await evaluator.evaluate(policy, scenarios, done=done)


def _settings(path: Path | None, model: str | None) -> Config:
    """Return a config for models and protocol; what belongs to a search is not used."""
    unused = {"data": "", "splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": "native"}
    overrides = [] if model is None else [f"model={json.dumps(model)}"]
    if path is None:
        return parse_config("{}", where="--model", overrides=overrides, defaults=unused)
    return load_config(path, overrides=overrides, defaults=unused)


def _show(policy: str, result: dict[str, Any], *, as_json: bool, console: Console) -> None:
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False))
    else:
        Console().print(score_table({policy: result}, title=f"{people(result['users'])}, model: {result['model']}"))
    for failure in result["failures"]:
        console.print(f"user {failure['user']} failed: {failure['reason']}", highlight=False, markup=False)
