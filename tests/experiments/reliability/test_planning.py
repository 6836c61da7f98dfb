from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.experiments.reliability.planning import evaluation


@pytest.mark.slow
def test_an_evaluation_is_measured(tmp_path: Path) -> None:
    taken = evaluation(tmp_path, users=2, concurrency=8, latency_ms=0, storage=None, cache=True)
    assert (taken.users, taken.cache) == (2, "folder")
    assert taken.calls > 100
    assert taken.calls_per_second * taken.seconds >= taken.calls, "its start takes seconds too"
    assert taken.cpu_seconds > 0
    assert taken.peak_mib > 20
    assert taken.disk_kib > 100
