"""Says where MLflow's pages are as soon as they answer.

It runs in a process of its own beside MLflow's server, and needs the standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
import webbrowser
from typing import Any

SECONDS_BETWEEN = 0.2
_OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def answers(address: str) -> bool:
    """Tell whether a server is up."""
    try:
        with _OPEN(f"{address}/health", timeout=5):
            return True
    except OSError:
        return False


def charts(address: str) -> str:
    """Return the address of the charts of the experiment with the newest run; the front page where there is none.

    Raises OSError where the server does not tell.
    """
    experiments = _asked(address, "experiments/search", {"max_results": 1000}).get("experiments", [])
    ids = [experiment["experiment_id"] for experiment in experiments]
    newest = {"experiment_ids": ids, "order_by": ["attributes.start_time DESC"], "max_results": 1}
    runs = _asked(address, "runs/search", newest).get("runs", []) if ids else []
    if not runs:
        return address
    return f"{address}/#/experiments/{runs[0]['info']['experiment_id']}/runs?compareRunsMode=CHART"


def _asked(address: str, what: str, given: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{address}/api/2.0/mlflow/{what}", json.dumps(given).encode(), {"Content-Type": "application/json"}
    )
    with _OPEN(request, timeout=20) as reply:
        told: dict[str, Any] = json.load(reply)
        return told


def main(address: str, server: int, *, opens: bool) -> None:
    """Wait for the server with this process id, and say where to look; open it in a browser where that is wanted."""
    while not answers(address):
        if os.getppid() != server:
            return
        time.sleep(SECONDS_BETWEEN)
    try:
        page = charts(address)
    except OSError:
        page = address
    what = "MLflow's pages" if page == address else "The newest study's charts"
    sys.stderr.write(f"{what}: {page}\n")
    if opens:
        webbrowser.open(page)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), opens=sys.argv[3:] == ["open"])
