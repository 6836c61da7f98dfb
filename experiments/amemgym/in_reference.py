"""What runs inside AMemGym's own environment, with its own Python: it imports nothing of ours.

python in_reference.py SOURCE DATA ENV_CONFIG URL OUT

SOURCE is the ``src`` folder of an AMemGym checkout. Leaves in OUT the texts of its prompts, with slots, and the results
of its own code for native and AWI-(2,4): overall, diagnosis, upper bound and random.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GUESSES = 42
"""What each of its scripts, a process of its own, seeds its guesses with when it starts."""


@contextmanager
def calls_of(module: Any) -> Iterator[list[list[dict[str, str]]]]:
    """Note the messages of a module's calls in place of a language model, which replies nothing."""
    calls: list[list[dict[str, str]]] = []

    def listen(messages: list[dict[str, str]], *_: Any, **__: Any) -> str:
        calls.append(messages)
        return ""

    call, module.call_llm = module.call_llm, listen
    try:
        yield calls
    finally:
        module.call_llm = call


def texts() -> dict[str, str]:
    """Find out each prompt by calling the code that makes it with slots for values."""
    from amemgym.assistants import awi, prompts
    from amemgym.env import sample_interactions
    from amemgym.eval import diagnosis, overall, upperbound

    schema, dates = {"@": ["@"]}, ("{start_date}", "{current_date}")
    profile, talk = {"formatted_str": "{profile}"}, [{"role": "@@", "content": "@@"}]
    with calls_of(sample_interactions) as calls:
        sample_interactions._generate_user_followup({}, "{query}", profile, schema, *dates, talk)
    with calls_of(awi) as systems:  # the agent itself says what it puts before a message
        awi.InContextMemAgent({"llm_config": {}, "agent_config": {}}).answer_question("")
    prompt = calls[0][-1]["content"]
    user = prompt.replace(json.dumps(schema, indent=2), "{schema_json}").replace("@@: @@", "{exchange}")
    return {
        "user": user,
        "answer": overall.OVERALL_PROMPT.format(query="{query}", choices="{choices}"),
        "upper_bound": upperbound.UTILIZATION_PROMPT.format(query="{query}", state="{state}", choices="{choices}"),
        "probe": diagnosis.DIAG_PROMPT.format(state_schema="{schema_json}"),
        "write_profile": prompts.IN_CONTEXT_MEMORY_UPDATE_PROMPT.format(
            current_memories="{memories}", conversation="{conversation}"
        ),
        "reply_context": systems[0][0]["content"] + "{memories}",
    }


def opened(source: str, data_file: str, env_file: str, url: str, out: str) -> tuple[list[Any], dict[str, Any], Path]:
    """Let AMemGym's code be imported; return its data, its environment with the model at ``url``, and the folder."""
    sys.path.insert(0, source)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    data, env = json.loads(Path(data_file).read_text()), json.loads(Path(env_file).read_text())
    env["llm_config_low_temp"] = {**model_at(url), "temperature": 0.2}
    return data, env, folder


def model_at(url: str) -> dict[str, Any]:
    """Return the config of the server's model."""
    return {"base_url": url, "api_key": "none", "llm_model": "m", "temperature": 0.0, "max_tokens": 8192}


def play(config: dict[str, Any], data: list[Any], folder: Path, run: Callable[..., Any], *rest: Any) -> None:
    """Run an agent on every user, one after the other, as the released scripts do."""
    from amemgym.assistants import create_agent

    for item in data:
        place = folder / config["name"] / item["id"]
        (place / "interactions").mkdir(parents=True, exist_ok=True)
        run(item, create_agent(dict(config), output_dir=str(place), item=item), str(place), *rest)


def main(source: str, data_file: str, env_file: str, url: str, out: str) -> None:
    """Run everything once, user by user."""
    data, env, folder = opened(source, data_file, env_file, url, out)
    time.sleep = lambda _: None  # the upper bound sleeps 3 s after every call
    from amemgym.eval import diagnosis, overall, upperbound
    from amemgym.eval.random import evaluate_random

    (folder / "texts.json").write_text(json.dumps(texts(), ensure_ascii=False), encoding="utf-8")
    seconds: dict[str, float] = {}
    for kind in ("native", "awi"):
        config = {"type": kind, "name": kind, "llm_config": model_at(url)}
        config["agent_config"] = {"update_bsz": 2, "local_length": 4}
        shutil.rmtree(folder / kind, ignore_errors=True)
        start = time.monotonic()
        random.seed(GUESSES)
        play(config, data, folder, overall.evaluate_item, env)
        seconds[kind] = time.monotonic() - start
        play(config, data, folder, diagnosis.diagnose_item)
        seconds[f"{kind} with diagnosis"] = time.monotonic() - start
    start = time.monotonic()
    random.seed(GUESSES)
    (folder / "m").mkdir(exist_ok=True)
    upperbound.evaluate_utilization(data, model_at(url), str(folder / "m"))
    seconds["upper bound"] = time.monotonic() - start
    chances = {"accuracy": evaluate_random(data, "accuracy").tolist()}
    (folder / "random_metrics.json").write_text(json.dumps(chances))
    (folder / "seconds.json").write_text(json.dumps(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
