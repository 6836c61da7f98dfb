"""AMemGym's self-evolution, by its own code and by ours, against one deterministic server.

python -m mnemotune.experiments.amemgym.evolution CHECKOUT PYTHON DATA [ENV_CONFIG]

CHECKOUT is a checkout of AMemGym, PYTHON an interpreter with its dependencies. For its shipped configs and for
variations of them, compares all requests and every answer.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Scenario
from ...env.dialogue.record import period_of
from ..command import run
from .compare import evaluate, messages, run_reference, same_requests
from .server import running

PORT = 8078
NUMBERS = {"update_bsz": 2, "local_length": 4}


def variations(checkout: Path) -> dict[str, dict[str, Any]]:
    """Return the agent configs to compare, by name."""
    shipped = sorted((checkout / "configs" / "agent" / "awi-evolve").glob("*.json"))
    configs = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in shipped}
    configs["oracle"] = {"type": "awi-hack", "agent_config": NUMBERS}
    for name, start, feedback in (
        ("told-all", "info_type", ["vanilla", "with_answer", "with_exposed_states"]),
        ("guided", "guided_info_type", ["vanilla", "with_answer"]),
        ("minimal", "minimal", ["vanilla"]),
        ("default", "default", ["vanilla_question_only", "with_answer"]),
    ):
        evolution = {"cadence": "period", "targets": ["memory_update_prompt"]}
        evolution |= {"init_prompt_type": start, "feedback_types": feedback}
        configs[name] = {"type": "awi-evolve", "agent_config": NUMBERS, "evolution_config": evolution}
    return {name: {**config, "name": name, "llm_config": {}} for name, config in configs.items()}


def compare(name: str, config: Mapping[str, Any], checkout: Path, python: str, data: str, env: Path) -> bool:
    """Run one config both ways, print what came out, and tell whether all is equal."""
    scenarios = load_scenarios(data)
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        agent = out / f"{name}.json"
        agent.write_text(json.dumps(config), encoding="utf-8")
        with running(PORT, "--record", str(out / "theirs.jsonl")) as url:
            run_reference("evolution_in_reference.py", python, checkout, agent, data, env, url=url, out=out)
        texts = json.loads((out / "texts.json").read_text(encoding="utf-8"))
        with running(PORT, "--record", str(out / "ours.jsonl")) as url:
            [evaluation] = asyncio.run(evaluate(url, [agent], scenarios, texts, env))
        theirs, ours = messages(out / "theirs.jsonl"), messages(out / "ours.jsonl")
        _leave_out(ours, texts["upper_bound"].split("{state}")[0].split("{query}")[1])
        if config["type"] == "awi-hack":
            _leave_out(ours, max(texts["probe"].split("{schema_json}"), key=len))
        answers = [_answers(out / name / s.id / "overall_results.json", s) for s in scenarios]
    own = [
        [[answer.choice for answer in period_of(e, p).answers] for p in range(len(e.stages))]
        for e in evaluation.episodes
    ]
    same = "equal" if answers == own else "UNLIKE"
    print(f"{name}: answers {same}; accuracy {evaluation.mean('accuracy'):.4f}", end="; ")
    return same_requests(theirs, ours) and answers == own


def _leave_out(sent: Counter[str], mark: str) -> None:
    """Leave out requests that hold a text: AMemGym makes them elsewhere, or cannot."""
    for text in [text for text in sent if json.dumps(mark)[1:-1] in text]:
        del sent[text]


def _answers(file: Path, life: Scenario) -> list[list[int]]:
    """Return the choices of each period; 0 and below count from the end there."""
    periods = json.loads(file.read_text(encoding="utf-8"))
    counts = [len(question.answer_choices) for question in life.qas]
    return [[(cell["response"] - 1) % n for cell, n in zip(p, counts, strict=True)] for p in periods]


def main(checkout: str, python: str, data: str, env_config: Annotated[str, typer.Argument()] = "") -> None:
    """Print the comparison; exit with 1 unless all is equal."""
    env = Path(env_config or Path(checkout) / "configs" / "env" / "v1.base.json")
    configs = variations(Path(checkout))
    equal = [compare(name, config, Path(checkout), python, data, env) for name, config in configs.items()]
    raise typer.Exit(0 if all(equal) else 1)


if __name__ == "__main__":
    run(main)
