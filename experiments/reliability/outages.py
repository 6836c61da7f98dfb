"""A search on a bad night beside the same search on a quiet one: its study and its sealed test must be equal.

python -m mnemotune.experiments.reliability.outages OUT

Of all requests 5% are hit by a fault of any kind, and the endpoint is gone three times: in two races and in the sealed
test.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...optimizer.config import load_config
from ...optimizer.search.listener import Listener, Standing
from ...optimizer.search.outcome import Outcome
from ...optimizer.search.run import evolve
from ...optimizer.study import Trial
from ..child import start
from ..command import run
from .faults import FaultProxy, faults_at_random, in_thread

CONFIG = Path(__file__).with_suffix(".yaml")
SHARE = 0.05
OUTAGES = {"trial 1": 30.0, "trial 3": 60.0, "sealed test": 120.0}
"""Seconds, by what the run has come to when the endpoint goes away."""
TIMES = ("spend", "wall_s", "critical_path", "per_turn")
"""What a policy's row says of calls and time, which faults may change."""


class Night(Listener):
    """Takes the endpoint away when a run comes to certain places."""

    def __init__(self, proxy: FaultProxy, outages: dict[str, float]) -> None:
        """Begin with all outages ahead."""
        self._proxy = proxy
        self._ahead = dict(outages)

    def trial(self, trial: Trial) -> None:
        """Go down after a trial."""
        self._come_to(f"trial {trial.number}")

    def stand(self, standing: Standing) -> None:
        """Go down in the sealed test."""
        if standing.phase.startswith("sealed test"):
            self._come_to("sealed test")

    def _come_to(self, place: str) -> None:
        seconds = self._ahead.pop(place, None)
        if seconds is not None:
            self._proxy.go_down()
            threading.Timer(seconds, self._proxy.come_back).start()


@contextmanager
def embedded_server() -> Iterator[str]:
    """Serve the embedded model in a process of its own; yield the base URL."""
    arguments = "serve", "--port", "0", "--workers", "1"
    with start("mnemotune", *arguments, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None  # noqa: S101 - it is piped
            yield next(word for word in server.stderr.readline().split() if word.startswith("http"))
        finally:
            server.terminate()


def table(outcome: Outcome) -> dict[str, Any]:
    """Return all that a run found, without what it took."""
    rows = {name: row.as_json() for name, row in outcome.test.rows.items()}
    return {
        "trials": [
            (
                trial.number,
                str(trial.policy and trial.policy.key),
                trial.decided_at,
                trial.accepted,
                trial.reason,
                trial.validation,
                trial.series,
            )
            for trial in outcome.study.trials
        ],
        "test": {name: {key: row[key] for key in row if key not in TIMES} for name, row in rows.items()},
    }


def searched(
    folder: Path, proxy: FaultProxy, outages: dict[str, float], overrides: Sequence[str]
) -> tuple[Outcome, float]:
    """Carry out the search through a proxy; return it and the seconds that it took."""
    start = time.monotonic()
    with in_thread(proxy) as url:
        config = load_config(CONFIG, overrides=[f"endpoint.base_url={url}", *overrides])
        return evolve(config, folder, listeners=[Night(proxy, outages)]), time.monotonic() - start


def main(out: Path, seed: int = 0) -> None:
    """Carry out both searches, and say whether they found the same."""
    overrides = [f"search.seed={seed}"]
    with embedded_server() as server:
        calm = FaultProxy(server)
        quiet, quiet_seconds = searched(out / "quiet", calm, {}, overrides)
        proxy = FaultProxy(server, faults_at_random(SHARE, seed=seed))
        bad, bad_seconds = searched(out / "bad", proxy, OUTAGES, overrides)
    tables = [json.dumps(table(outcome), sort_keys=True) for outcome in (quiet, bad)]
    gone = sum(OUTAGES.values())
    print(f"requests: {calm.requests:,} on the quiet night, {proxy.requests:,} on the bad one; hit: {dict(proxy.hit)}")
    print(f"seconds: {quiet_seconds:.0f} and {bad_seconds:.0f}, {gone:.0f} of them outages")
    print(f"beyond both: {bad_seconds - quiet_seconds - gone:.0f} s")
    print(f"trials: {len(quiet.study.trials)}; rows of the test: {', '.join(quiet.test.rows)}")
    print("equal" if tables[0] == tables[1] else "DIFFERENT")
    if tables[0] != tables[1]:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
