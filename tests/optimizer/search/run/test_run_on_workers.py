"""A run whose episodes are played by workers is the run that one process plays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemotune.optimizer.config import Config
from mnemotune.optimizer.models import open_models
from mnemotune.optimizer.search.outcome import Outcome, open_run
from mnemotune.optimizer.workers import CALLS_A_PROCESS, open_pool
from running import TRIAL_2, Screen, Stop, assert_same_study, go, go_on

TWO = "workers={runner: processes, count: 2}"


def test_the_study_is_that_of_one_process(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    outcome = go(configured(TWO), runs / "run")
    assert_same_study(outcome, finished, kit)
    assert [trial.ledger for trial in outcome.study.trials] == [trial.ledger for trial in finished.study.trials]
    assert outcome.as_json()["calls"] == finished.as_json()["calls"]


def test_a_run_that_was_stopped_goes_on_with_other_workers(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    with pytest.raises(Stop):
        go(configured(TWO), runs / "run", Screen(TRIAL_2))
    assert_same_study(go_on(runs / "run", "workers={runner: here}"), finished, kit)
    assert open_run(runs / "run").config.workers.runner == "here"


@pytest.mark.parametrize(
    ("overrides", "calls", "workers"),
    [
        ([], 2 * CALLS_A_PROCESS, 2),
        ([], 2 * CALLS_A_PROCESS - 1, None),
        ([], 100 * CALLS_A_PROCESS, 5),
        (["workers.count=3"], 100 * CALLS_A_PROCESS, 3),
        (["workers.runner=here"], 100 * CALLS_A_PROCESS, None),
        (["workers.runner=processes"], 0, 5),
        (["model=openai:m", "endpoint.base_url=http://127.0.0.1:9/v1"], 100 * CALLS_A_PROCESS, None),
    ],
)
def test_there_are_workers_where_there_is_enough_to_do_on_this_machine(
    overrides: list[str],
    calls: int,
    workers: int | None,
    configured: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    config = configured(*overrides)
    with open_models(config, folder=None) as models:
        pool = open_pool(config, models, folder=None, calls=calls, most=5)
    assert (None if pool is None else pool.workers) == workers
