"""Who hears of a run, and that nobody changes it.

Invariants:

1. A run begins for each listener once, and ends for it once: finished, or aborted.
2. A run is the same whoever hears of it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from mnemotune.optimizer.config import Config, ConfigError, dump_config
from mnemotune.optimizer.search.listener import Listener, Standing
from mnemotune.optimizer.search.outcome import Outcome
from mnemotune.optimizer.search.run import evolve, refresh, resume
from mnemotune.optimizer.study import Trial
from running import Stop


class Ear(Listener):
    """Writes down what it hears; ``stops`` at a trial."""

    def __init__(self, *, stops: int | None = None) -> None:
        self.heard: list[str] = []
        self.standings: list[Standing] = []
        self.trials: list[int] = []
        self.stops = stops

    def check(self, config: Config) -> None:
        self.heard.append("check")

    def begin(self, outcome: Outcome) -> None:
        self.heard.append("begin")

    def stand(self, standing: Standing) -> None:
        self.standings.append(standing)

    def trial(self, trial: Trial) -> None:
        self.trials.append(trial.number)
        if trial.number == self.stops:
            raise Stop

    def finish(self) -> None:
        self.heard.append("finish")

    def abort(self) -> None:
        self.heard.append("abort")


class Refusing(Listener):
    """Cannot follow any run."""

    def check(self, config: Config) -> None:
        raise ConfigError("listener: not today")


def test_listeners_hear_of_every_trial_and_every_phase_invariant_1(
    configured: Callable[..., Config], runs: Path
) -> None:
    ears = [Ear(), Ear()]
    outcome = evolve(configured("search.generations=1"), runs / "run", listeners=ears)
    for ear in ears:
        assert ear.heard == ["check", "begin", "finish"]
        assert ear.trials == [trial.number for trial in outcome.study.trials]
        phases = [phase for phase, _ in groupby(standing.phase for standing in ear.standings)]
        assert phases == ["searching", "last look at the validation users", "sealed test on 3 users"]
        assert {standing.phase for standing in ear.standings if standing.planned_trials} == {"searching"}


def test_no_more_calls_are_expected_than_the_budget_has_from_the_first_moment(
    configured: Callable[..., Config], runs: Path
) -> None:
    ear = Ear(stops=0)
    config = configured("search.generations=5000", "search.budget.calls=20000")
    with pytest.raises(Stop):
        evolve(config, runs / "run", listeners=[ear])
    assert all(0 < standing.calls_ahead <= 20_000 for standing in ear.standings)


def test_a_run_that_is_stopped_is_aborted_and_begins_again_invariant_1(
    configured: Callable[..., Config], runs: Path
) -> None:
    first, second = Ear(stops=1), Ear()
    with pytest.raises(Stop):
        evolve(configured("search.generations=1"), runs / "run", listeners=[first])
    assert first.heard == ["check", "begin", "abort"]
    outcome = resume(runs / "run", listeners=[second])
    assert second.heard == ["check", "begin", "finish"]
    assert second.trials == [trial.number for trial in outcome.study.trials], "those from before the stop too"


def test_a_run_is_the_same_without_anybody_invariant_2(
    configured: Callable[..., Config], runs: Path, finished: Outcome, kit: Any
) -> None:
    alone = evolve(configured(), runs / "run")
    assert [kit.told(trial) for trial in alone.study.trials] == [kit.told(trial) for trial in finished.study.trials]
    written = {path.name for path in (runs / "run").iterdir() if path.is_file() and not path.name.startswith(".")}
    assert written >= {"best_policy.yaml", "result.json", "study.db"}
    assert "report.html" not in written


def test_who_cannot_follow_a_run_ends_it_before_anything_is_spent(
    configured: Callable[..., Config], runs: Path
) -> None:
    with pytest.raises(ConfigError, match="not today"):
        evolve(configured(), runs / "run", listeners=[Refusing()])
    assert not (runs / "run").exists()


def test_a_finished_run_is_told_again_when_it_is_refreshed(finished: Outcome, runs: Path) -> None:
    ear = Ear()
    refresh(finished.folder, listeners=[ear])
    assert ear.heard == ["begin", "finish"]


def test_without_tracking_mlflow_is_neither_imported_nor_touched(
    configured: Callable[..., Config], tmp_path: Path
) -> None:
    """In a process of its own: here it is imported already."""
    config = configured("tracking=none", "search.generations=1")
    (tmp_path / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    program = (
        "import sys; from pathlib import Path; from rich.console import Console;"
        "from mnemotune.optimizer.config import load_config; from mnemotune.optimizer.search.run import evolve;"
        "from mnemotune.optimizer.views.listeners import unseen_listeners;"
        "outcome = evolve(load_config('config.yaml'), Path('runs/one'), listeners=unseen_listeners());"
        "print('mlflow' in sys.modules, outcome.tracking_uri)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "False None\n"), done.stderr
    assert (tmp_path / "runs" / "one" / "report.html").is_file()
    assert not (tmp_path / "runs" / "mlflow.db").exists()
