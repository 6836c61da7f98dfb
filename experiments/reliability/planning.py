"""What users, calls and trials take of one process: seconds, memory and disk, against a server that only waits.

python -m mnemotune.experiments.reliability.planning OUT [--storage postgresql://...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...optimizer.search.outcome import open_run
from ...policies.files import dump_yaml
from ...policies.lm.secrets import redacted
from ..child import start
from ..command import run
from .waiting import waiting_server

USERS = (4, 8, 16, 32)
CONCURRENCY = (8, 16, 32, 64, 128)
SEARCH = {"splits.train": 4, "splits.validation": 8, "splits.test": 4, "search.generations": 2}


@dataclass(frozen=True, slots=True)
class Taken:
    """What one evaluation took."""

    users: int
    concurrency: int
    latency_ms: int
    cache: str
    """``none``, ``folder`` or ``PostgreSQL``."""
    calls: int
    seconds: float
    cpu_seconds: float
    """Of the client's process, its start included."""
    calls_per_second: float
    peak_mib: float
    disk_kib: float
    """Of the folder, cache and transcripts."""


def evaluation(out: Path, *, users: int, concurrency: int, latency_ms: int, storage: str | None, cache: bool) -> Taken:
    """Evaluate one policy in a process of its own."""
    kind = "none" if not cache else "folder" if storage is None else "PostgreSQL"
    folder = out / f"{users}-users-{concurrency}-at-once-{latency_ms}-ms-{kind}"
    folder.mkdir(parents=True)
    with waiting_server(latency_ms / 1000) as (url, _):
        endpoint = {"base_url": url, "concurrency": concurrency, "cache": cache}
        config = {"model": "openai:waits", "endpoint": endpoint, "context_tokens": 1000, "embedder": "lexical:1024"}
        (folder / "config.yaml").write_text(
            dump_yaml(config | {"storage": storage and redacted(storage)}), encoding="utf-8"
        )
        command = ["evaluate", "rag", "--no-window", "--json", "--data", f"generated:{users}@{users}"]
        command += ["--config", str(folder / "config.yaml"), "--out", str(folder / "out")]
        environment = os.environ | {"MNEMOTUNE_STORAGE": storage or ""}
        seconds, cpu, peak, text = _usage(command, environment)
    result = json.loads(text)
    calls = sum(spend["calls"] for spend in result["spend"].values())
    disk = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())
    wall = result["wall_s"]
    return Taken(
        users, concurrency, latency_ms, kind, calls, round(seconds, 1), round(cpu, 1),
        round(calls / wall, 1), round(peak / 1024, 1), round(disk / 1024, 1),
    )  # fmt: skip


def _usage(command: list[str], environment: dict[str, str]) -> tuple[float, float, int, str]:
    """Return a command's seconds, processor seconds and peak memory (KiB), and what it printed."""
    began = time.monotonic()
    process = start("mnemotune", *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout is not None  # noqa: S101 - it is piped
    text = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"mnemotune {' '.join(command)}: ended with {process.returncode}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss, text


def study_of(out: Path) -> dict[str, float]:
    """Search on the embedded model, and return the study's size a trial."""
    command = [sys.executable, "-m", "mnemotune", "evolve", "configs/quickstart.yaml", "--out", str(out / "search")]
    settings = {**SEARCH, "tracking": "none", "data": "generated:16@1"}
    command += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    trials = len(open_run(out / "search").study.trials)
    size = (out / "search" / "study.db").stat().st_size
    return {"trials": trials, "kib": size / 1024, "kib_per_trial": round(size / 1024 / trials, 1)}


def main(
    out: Annotated[Path, typer.Argument(help="A new folder.")],
    storage: Annotated[str | None, typer.Option(help="A PostgreSQL database, to compare caches with.")] = None,
) -> None:
    """Measure, and write ``planning.json``."""
    rows = []
    caches = [(None, False), (None, True)] + ([(storage, True)] if storage else [])
    plans = [(8, 64, 0, *cache) for cache in caches]
    plans += [(users, 64, 20, None, True) for users in USERS]
    plans += [(16, concurrency, 200, None, True) for concurrency in CONCURRENCY]
    for users, concurrency, latency_ms, where, cache in plans:
        taken = evaluation(out, users=users, concurrency=concurrency, latency_ms=latency_ms, storage=where, cache=cache)
        print(json.dumps(asdict(taken)), flush=True)
        rows.append(asdict(taken))
    study = study_of(out)
    print(json.dumps(study), flush=True)
    (out / "planning.json").write_text(json.dumps({"evaluations": rows, "study": study}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    run(main)
