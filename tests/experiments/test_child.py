"""Programs and servers that an experiment starts beside itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_SECONDS = 60.0
KILLED = """
import os, signal
from {module} import {server}

if __name__ == "__main__":
    with {server}({argument}):
        print("up", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("module", "server", "argument"),
    [
        ("mnemotune.experiments.reliability.outages", "embedded_server", ""),
        ("mnemotune.experiments.reliability.waiting", "waiting_server", "0.0"),
    ],
)
def test_a_server_ends_with_an_experiment_that_is_killed(
    module: str, server: str, argument: str, tmp_path: Path
) -> None:
    script = tmp_path / "experiment.py"
    script.write_text(KILLED.format(module=module, server=server, argument=argument), encoding="utf-8")
    # what the experiment leaves running holds its standard output open
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"up\n"), done.stderr
