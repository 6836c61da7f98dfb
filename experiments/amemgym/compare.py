"""Run AMemGym's own code and mnemotune against one deterministic server, and compare messages and numbers.

python -m mnemotune.experiments.amemgym.compare CHECKOUT PYTHON DATA [ENV_CONFIG]

CHECKOUT is a copy of github.com/AGI-Eval-Official/amemgym, PYTHON an interpreter that has what its ``overall`` needs
(backoff, loguru, tqdm, python-dotenv, tiktoken, numpy, openai), DATA a ``data.json``.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ...data import Scenario, load_scenarios
from ...env import Evaluation, Protocol
from ...env.dialogue.compat import DEFECTS
from ...env.dialogue.interchange import BOUND, read_results, write_results
from ...policies import load_policy
from ...policies.prompts import Templates
from ..command import run
from .client import evaluator_at
from .server import running

PORT = 8126
KINDS = ("native", "awi")
NEAR = 1e-9
UNCOMPARED = ("llm_usage_statistics", "response")
"""Of a result: the usage of the call, and the number of the choice, where 0 means the last choice there, not here."""
FIGURES = ("accuracy", "memory_score", "write", "read", "utilisation")


def messages(file: Path) -> Counter[str]:
    """Return how often each list of messages was sent, with the form of the reply that was asked for."""
    bodies = [json.loads(line)["body"] for line in file.read_text(encoding="utf-8").splitlines()]
    return Counter(json.dumps([body["messages"], body.get("response_format")]) for body in bodies)


def read_reference(folder: Path, kind: str, scenarios: Sequence[Scenario]) -> dict[str, float]:
    """Work out the figures from AMemGym's own result files, as its plots and its paper do."""
    metrics = [_json(folder / kind / scenario.id / "overall_metrics.json")["accuracy"] for scenario in scenarios]
    right = np.array(metrics)
    random = np.array(_json(folder / "random_metrics.json")["accuracy"])
    bound = np.array(_json(folder / "m" / "utilization_metrics.json")["accuracy"])
    score, chance, most = (values.mean(axis=2) for values in (right, random, bound))
    shares = np.array([_shares(folder / kind / scenario.id, right[u]) for u, scenario in enumerate(scenarios)])
    with np.errstate(all="ignore"):
        memory_score = ((score - chance) / (most - chance)).mean()
    return dict(zip(FIGURES, (right.mean(), memory_score, *shares.mean(axis=(0, 2, 3)).T), strict=True))


def _shares(folder: Path, right: Any) -> Any:
    """Return write, read and utilisation, each [period][question]: a wrong answer's weight, split by its failures."""
    metrics = {name: np.array(values) for name, values in _json(folder / "diagnosis_metrics.json").items()}
    wrong, known = 1 - right, metrics["memory_success"] == 1
    failures = np.maximum(metrics["write_failure"] + metrics["read_failure"], 1)
    write, read = (np.where(known, 0, metrics[f"{name}_failure"] / failures) for name in ("write", "read"))
    return np.array([wrong * write, wrong * read, wrong * known])


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def figures(evaluation: Evaluation) -> dict[str, float]:
    """Return ours."""
    names = ("accuracy", "write", "read", "utilisation")
    return {name: evaluation.mean(name) for name in names} | {"memory_score": evaluation.memory_score.mean}


async def evaluate(
    url: str, policies: Sequence[str | Path], scenarios: Sequence[Scenario], texts: Mapping[str, str], env: Path
) -> list[Evaluation]:
    """Evaluate policies under AMemGym's texts and defects."""
    rounds = _json(env)
    templates = Templates.model_validate(Templates.completed(texts))
    protocol = Protocol(rounds["num_rounds_init"], rounds["num_rounds_update"], templates, frozenset(DEFECTS))
    async with evaluator_at(url, protocol=protocol) as evaluator:
        return [await evaluator.evaluate(load_policy(p, templates=templates), scenarios) for p in policies]


def run_reference(script: str, python: str, checkout: str | Path, *arguments: str | Path, url: str, out: Path) -> None:
    """Run AMemGym's own code with its own Python; ``out`` gets what the script leaves."""
    command = [python, Path(__file__).parent / script, Path(checkout) / "src", *arguments, url, out]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def main(checkout: str, python: str, data: str, env_config: Annotated[str, typer.Argument()] = "") -> None:
    """Print the comparison; exit with 1 unless all is equal."""
    scenarios = load_scenarios(data)
    env = Path(env_config or Path(checkout) / "configs" / "env" / "v1.base.json")
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        with running(PORT, "--record", str(out / "theirs.jsonl")) as url:
            run_reference("in_reference.py", python, checkout, data, env, url=url, out=out)
        with running(PORT, "--record", str(out / "ours.jsonl")) as url:
            texts, start = _json(out / "texts.json"), time.monotonic()
            evaluations = asyncio.run(evaluate(url, KINDS, scenarios, texts, env))
            seconds = time.monotonic() - start
        equal = True
        for kind, evaluation in zip(KINDS, evaluations, strict=True):
            reference, ours = read_reference(out, kind, scenarios), figures(evaluation)
            far = max(abs(reference[name] - ours[name]) for name in FIGURES)
            equal &= far < NEAR
            print(f"{kind}, {len(scenarios)} users: AMemGym, mnemotune; largest difference {far:.1e}")
            for name in FIGURES:
                print(f"  {name:<13} {reference[name]:.12f} {ours[name]:.12f}")
            written = out / "written"
            protocol = Protocol(templates=Templates.model_validate(Templates.completed(texts)))
            write_results(written, evaluation, scenarios, name=kind, model="m", protocol=protocol)
            read = read_results(out / kind, scenarios, upper_bound=out / "m" / BOUND, policy=evaluation.policy)
            equal &= read.groups == evaluation.groups
            print(f"  AMemGym's files give {'the same' if read.groups == evaluation.groups else 'OTHER'} scores here")
        equal &= _compare_files(out, written)
        equal &= same_requests(messages(out / "theirs.jsonl"), messages(out / "ours.jsonl"))
        theirs = sum(value for name, value in _json(out / "seconds.json").items() if "with" in name or "bound" in name)
        print(f"seconds without latency: AMemGym {theirs:.1f} (its sleeps left out), mnemotune {seconds:.1f}")
    raise typer.Exit(0 if equal else 1)


def _compare_files(theirs: Path, ours: Path) -> bool:
    """Compare every result that we write with AMemGym's of the same name, but for what is ``UNCOMPARED``.

    Agent configs are left out: AMemGym's command line copies the one that it is given, and here it is not used.
    """
    configs = {ours / kind / f"{kind}.json" for kind in KINDS}
    files = sorted(set(ours.rglob("*.json")) - configs)
    unlike = [file for file in files if _bare(_json(file)) != _bare(_json(theirs / file.relative_to(ours)))]
    print(f"files: {len(files)} written, {len(unlike)} of them unlike AMemGym's {unlike[:1]}")
    return not unlike


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key not in UNCOMPARED}
    return value


def same_requests(theirs: Counter[str], ours: Counter[str]) -> bool:
    """Print how far requests differ, with an example of each kind, and tell whether they are the same."""
    missing, added = theirs - ours, ours - theirs
    print(f"requests: AMemGym {theirs.total():,}, mnemotune {ours.total():,}", end="; ")
    print(f"{missing.total():,} only AMemGym's, {added.total():,} only ours")
    for text in [*list(missing)[:1], *list(added)[:1]]:
        print("  " + text[:300] + " ... " + text[-600:])
    return not missing and not added


if __name__ == "__main__":
    run(main)
