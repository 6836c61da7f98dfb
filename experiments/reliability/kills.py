"""A search that is killed again and again beside the same search left alone: both must find and be charged the same.

python -m mnemotune.experiments.reliability.kills OUT [SEED]

The kills are dealt at random over all requests, so that some fall into the broad start and some into the sealed test.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from ...optimizer.search.outcome import Outcome, open_run
from ..child import start
from ..command import run
from .faults import FaultProxy, in_thread
from .outages import embedded_server, table

CONFIG = Path(__file__).with_suffix(".yaml")
KILLS = 50
CONCURRENCY = 16
"""Requests under way at once, and so the most that a kill can make to be sent twice."""


class Counting(FaultProxy):
    """Passes every request on, and counts how often each came."""

    def __init__(self, upstream: str) -> None:
        """Pass on to ``upstream``, a base URL that ends in /v1."""
        super().__init__(upstream, self._count)
        self.sent: Counter[bytes] = Counter()

    @property
    def again(self) -> int:
        """Requests that came more than once."""
        return self.sent.total() - len(self.sent)

    def _count(self, _number: int, body: bytes) -> None:
        self.sent[hashlib.sha256(body).digest()] += 1


def evolving(folder: Path, url: str, seed: int) -> subprocess.Popen[str]:
    """Begin the search in a process of its own, or go on with it."""
    begin = ["--out", str(folder), "--set", f"endpoint.base_url={url}", "--set", f"search.seed={seed}"]
    begin += ["--set", f"endpoint.concurrency={CONCURRENCY}"]
    given = ["--resume", str(folder)] if (folder / "study.db").exists() else [str(CONFIG), *begin]
    return start("mnemotune", "evolve", *given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def searched(folder: Path, server: str, seed: int, kills: list[int]) -> tuple[Outcome, Counting, int]:
    """Carry out the search; kill it each time that so many different requests have come."""
    proxy, left, killed = Counting(server), sorted(kills), 0
    with in_thread(proxy) as url:
        while True:
            process = evolving(folder, url, seed)
            while process.poll() is None and not (left and len(proxy.sent) >= left[0]):
                time.sleep(0.002)
            if process.poll() is None:
                process.kill()
                process.wait()
                left, killed = [count for count in left if count > len(proxy.sent)], killed + 1
                continue
            if process.returncode:
                sys.exit(process.stderr.read() if process.stderr else "the search failed")
            return open_run(folder), proxy, killed


def main(out: Path, seed: int = 0) -> None:
    """Carry out both searches, and say whether they are the same."""
    with embedded_server() as server:
        alone, calm, _ = searched(out / "alone", server, seed, [])
        different = len(calm.sent)
        rng = random.Random(f"kills:{seed}")
        counts = rng.sample(range(different // 200, different), KILLS)
        killed, proxy, kills = searched(out / "killed", server, seed, counts)
    same = {
        "study and sealed test": json.dumps(table(alone)) == json.dumps(table(killed)),
        "policy": len({(run.folder / "best_policy.yaml").read_bytes() for run in (alone, killed)}) == 1,
        "nothing doubled": [trial.number for trial in killed.study.trials] == list(range(len(killed.study.trials))),
        "different requests": set(proxy.sent) == set(calm.sent),
    }
    consumed, limit = killed.consumed.calls, killed.config.search.budget.calls
    same["charged for all that was sent, within the budget"] = proxy.requests <= consumed <= (limit or consumed)
    same["no more sent twice than was under way"] = proxy.again <= kills * CONCURRENCY
    print(f"{kills} kills; requests: {calm.requests:,} left alone, {proxy.requests:,} killed")
    print(f"sent again: {proxy.again:,}, {proxy.again / max(1, kills):.1f} a kill")
    print(f"charged: {alone.consumed.calls:,} calls left alone, {consumed:,} killed")
    print(f"seconds: {alone.consumed.seconds:.0f} left alone, {killed.consumed.seconds:.0f} killed")
    for what, holds in same.items():
        print(f"{what}: {'yes' if holds else 'NO'}")
    if not all(same.values()):
        sys.exit(1)


if __name__ == "__main__":
    run(main)
