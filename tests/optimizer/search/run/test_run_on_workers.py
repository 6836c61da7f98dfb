"""A run whose episodes are played by workers is the run that one process plays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemotune.env.runner import Here
from mnemotune.optimizer.config import Config, ConfigError
from mnemotune.optimizer.models import open_models
from mnemotune.optimizer.search.outcome import Outcome, open_run
from mnemotune.optimizer.search.place import alone_in
from mnemotune.optimizer.workers import CALLS_A_PROCESS, _paced, open_pool
from running import TRIAL_2, Screen, Stop, assert_same_study, go, go_on

TWO = "workers={runner: processes, count: 2}"


def test_the_study_is_that_of_one_process(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Here, "run", None)  # nothing is played in this process
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
    monkeypatch.setattr("mnemotune.optimizer.workers.usable_cores", lambda: 8)
    config = configured(*overrides)
    with open_models(config, folder=None) as models:
        pool = open_pool(config, models, folder=None, calls=calls, most=5)
    assert (None if pool is None else pool.workers) == workers


def test_a_limit_of_requests_a_minute_is_divided_among_workers(configured: Callable[..., Config]) -> None:
    config = configured("model=openai:m", "endpoint={base_url: http://127.0.0.1:9/v1, requests_per_minute: 100}")
    assert _paced(config, 3).endpoint.requests_per_minute == 33
    assert _paced(configured("model=openai:m"), 3).endpoint.requests_per_minute is None


@pytest.mark.parametrize("workers", ["{address: '10.0.0.5:6379'}", "{runner: here, count: 2}"])
def test_a_setting_without_effect_is_refused(workers: str, configured: Callable[..., Config]) -> None:
    with pytest.raises(ConfigError, match="leave it out"):
        configured(f"workers={workers}")


def test_a_process_that_is_refused_leaves_what_another_makes_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with alone_in(folder, None) as (_, begun):
        (folder / "study.db").touch()
        with pytest.raises(ConfigError, match="another process is at work"), alone_in(folder, None):
            pass
        assert (folder / "study.db").exists()
        begun()
    with alone_in(folder, None):
        (folder / "talks").mkdir()
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "study.db"], "it had not begun"
