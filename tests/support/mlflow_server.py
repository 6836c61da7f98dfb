"""MLflow's server, as ``mnemotune ui`` starts it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def serving(uri: str, *, cwd: Path) -> Iterator[str]:
    """Run ``mnemotune ui`` in a process group of its own; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mnemotune", "ui", "--port", str(port), "--uri", uri]
    with (cwd / "ui.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=cwd, start_new_session=True, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            give_up = time.monotonic() + 90
            while True:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):  # noqa: S310
                    break
                assert server.poll() is None, (cwd / "ui.log").read_text()
                assert time.monotonic() < give_up, (cwd / "ui.log").read_text()
                time.sleep(0.3)
            yield address
            server.terminate()
            server.wait(60)
            give_up = time.monotonic() + 20
            while group_lives(server.pid):
                assert time.monotonic() < give_up, "a process of the server is left behind"
                time.sleep(0.1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait(10)


def group_lives(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True
