"""MLflow's store, when it is opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFIG = "{data: base, splits: {train: 2, validation: 2, test: 3}, seed_policy: native, search: {seed: 5}}"


def test_a_new_store_is_made_without_a_word_and_asks_nothing_of_any_network(tmp_path: Path) -> None:
    """In a process of its own: MLflow decides on its telemetry and its logging when it is imported first."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(CONFIG, encoding="utf-8")
    program = """
import socket, time
asked = []
def refuse(host, *rest, **more):
    asked.append(host)
    raise OSError("no network")
socket.getaddrinfo = refuse
from pathlib import Path
from mnemotune.optimizer.search.outcome import open_run, open_study
from mnemotune.optimizer.views.tracking.tracker import Tracker
open_study(Path("run"))
tracker = Tracker(tell=print)
tracker.begin(open_run(Path("run")))
tracker.finish()
time.sleep(1)
print(asked)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    assert (tmp_path / "mlflow.db").is_file()
