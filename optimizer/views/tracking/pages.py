"""Says where MLflow's pages are as soon as they answer.

It runs in a process of its own beside MLflow's server, and needs the standard library alone.
"""

from __future__ import annotations

import os
import sys
import time
import urllib.request
import webbrowser
from contextlib import suppress

SECONDS_BETWEEN = 0.2
_OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def answers(address: str) -> bool:
    """Tell whether a server is up."""
    try:
        with _OPEN(f"{address}/health", timeout=5):
            return True
    except OSError:
        return False


def main(address: str, server: int, *, opens: bool) -> None:
    """Wait for the server with this process id, and say where to look; open it in a browser where that is wanted."""
    while not answers(address):
        if os.getppid() != server:
            return
        time.sleep(SECONDS_BETWEEN)
    sys.stderr.write(f"The newest study's charts: {address}/charts\n")
    if opens:
        webbrowser.open(f"{address}/charts")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C ends the server, and this with it
        main(sys.argv[1], int(sys.argv[2]), opens=sys.argv[3:] == ["open"])
