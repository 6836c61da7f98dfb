"""A small run, whole and stopped, and folders for others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemotune.optimizer.config import Config, parse_config
from mnemotune.optimizer.search.outcome import Outcome
from people import write_people
from running import TRIAL_2, Screen, Stop, go


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve generated users whose lives are cut short, so that a run takes a second."""
    return write_people(tmp_path_factory.mktemp("people"), users=12, periods=2, questions=3)


@pytest.fixture(scope="session")
def configured(people: Path) -> Callable[..., Config]:
    """Make the config of a small run whose seed policy forgets nearly everything."""
    text = (
        f"{{data: {people}, splits: {{train: 2, validation: 4, test: 3}}, baselines: [native],"
        " seed_policy: {write: {mode: none}, update_every: 2, buffer_size: 0},"
        " search: {seed: 1, generations: 2, candidates: 2, broad_start: 0, budget: {calls: 20000}}}"
    )
    return lambda *overrides: parse_config(text, where="test", overrides=overrides)


@pytest.fixture(scope="session")
def longer(configured: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Config]:
    """The same run with longer lives."""
    people = write_people(tmp_path_factory.mktemp("longer"), users=12, periods=3, questions=4)
    return lambda *overrides: configured(f"data={people}", *overrides)


@pytest.fixture(scope="session")
def finished(configured: Callable[..., Config], empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run that nothing disturbed; its folder must not be changed."""
    runs = tmp_path_factory.mktemp("runs")
    shutil.copy(empty_store, runs / "mlflow.db")
    return go(configured(), runs / "whole", views=True)


@pytest.fixture(scope="session")
def stopped_once(
    configured: Callable[..., Config], empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of runs with one that was stopped when trial 2 was done; it must not be changed."""
    runs = tmp_path_factory.mktemp("stopped")
    shutil.copy(empty_store, runs / "mlflow.db")
    with pytest.raises(Stop):
        go(configured(), runs / "run", Screen(TRIAL_2), views=True)
    return runs


@pytest.fixture
def runs(empty_store: Path, tmp_path: Path) -> Path:
    """A folder for runs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    return folder


@pytest.fixture
def copy(finished: Outcome, runs: Path) -> Path:
    """A copy of the finished run's folder, unknown to MLflow."""
    return Path(shutil.copytree(finished.folder, runs / "copy"))


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    """A run that was stopped when trial 2 was done, with MLflow's view of it."""
    return Path(shutil.copytree(stopped_once, tmp_path / "stopped")) / "run"


@pytest.fixture(scope="session")
def searched_once(
    configured: Callable[..., Config], empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of runs with one that was stopped when its search was over; it must not be changed."""
    runs = tmp_path_factory.mktemp("searched")
    shutil.copy(empty_store, runs / "mlflow.db")
    with pytest.raises(Stop):
        go(configured("search.generations=1"), runs / "run", Screen("The search is over"))
    return runs
