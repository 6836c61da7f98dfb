"""Evolve a policy on your own endpoint, and read what came of it in Python.

Without --spend it says what a search will spend, and asks your endpoint nothing. With it, it searches within a budget
of calls and prints the sealed test.

    mnemotune serve --port 8000 &       # stands in for your endpoint: vLLM, Ollama, OpenAI, a proxy
    python examples/own_endpoint.py --url http://localhost:8000/v1 --model embedded --out runs/mine --spend
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import yaml

from mnemotune import load_run


def config_of(given: argparse.Namespace) -> dict[str, object]:
    """Return a small search: few users, the presets to compare with, a limit on calls."""
    train, validation, test = given.users
    return {
        "data": given.data,
        "splits": {"train": train, "validation": validation, "test": test},
        "model": f"openai:{given.model}",
        "embedder": given.embedder,
        "endpoint": {"base_url": given.url, "concurrency": 16},
        "context_tokens": 1000,
        "seed_policy": "awi",
        "baselines": ["window", "rag"],
        "search": {
            "generations": given.generations,
            "candidates": 2,
            "broad_start": 4,
            "budget": {"calls": given.calls},
        },
        "tracking": "none",
    }


def mnemotune(*arguments: str | Path) -> None:
    """Run a command of mnemotune; it is stopped and goes on like any other."""
    subprocess.run([sys.executable, "-m", "mnemotune", *map(str, arguments)], check=True)


def main() -> None:
    """Estimate; or evolve, and read what came of it."""
    parser = argparse.ArgumentParser(description="Evolve a policy on your own endpoint.")
    parser.add_argument("--url", required=True, help="an OpenAI-compatible endpoint")
    parser.add_argument("--model", required=True, help="the model's name there")
    parser.add_argument("--embedder", default="lexical:1024", help="with a real model rather openai:NAME")
    parser.add_argument("--data", default="generated:18@1", help="users, best your own")
    parser.add_argument("--users", type=int, nargs=3, default=[4, 6, 8], help="in train, validation and test")
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--calls", type=int, default=80_000, help="most calls of the whole run")
    parser.add_argument("--spend", action="store_true", help="search; else only say what it will spend")
    parser.add_argument("--out", type=Path, required=True, help="the run folder")
    given = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "none")  # most servers of one's own want no key

    config = given.out.with_name(f"{given.out.name}.yaml")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(yaml.safe_dump(config_of(given), sort_keys=False), encoding="utf-8")
    if not given.spend:
        mnemotune("estimate", config)
        return
    mnemotune("evolve", config, "--out", given.out)

    run = load_run(given.out)
    print(run.groups.groupby("policy", sort=False)["memory_score"].agg(["mean", "count"]).round(3))
    print(run.trials[["trial", "proposer", "verdict", "train"]].to_string(index=False))


if __name__ == "__main__":
    main()
