"""MLflow's pages, as `mnemotune ui` serves them and a browser shows them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from browsing import chromium, keep_picture, needs_browser
from mlflow_server import serving
from mnemotune.optimizer.config import dump_config, parse_config
from mnemotune.optimizer.search.outcome import Outcome, open_run
from mnemotune.optimizer.views.tracking import pages
from mnemotune.optimizer.views.tracking.store import logged_run
from mnemotune.optimizer.views.tracking.tracker import Tracker

CONFIG = "{data: base, splits: {train: 2, validation: 2, test: 3}, seed_policy: native, search: {seed: 5}}"
REASON = "left after 8 train users: -0.078 over its parent"
OF_MLFLOW = ("404", "ResizeObserver", "ERR_NAME_NOT_RESOLVED")
"""What MLflow's own pages say on the console, whatever is in the store; they ask elsewhere too."""


@pytest.fixture(scope="module")
def study(kit: Any, empty_study: Path, empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run of two trials that MLflow shows."""
    folder = tmp_path_factory.mktemp("shown") / "runs" / "mine-001"
    folder.mkdir(parents=True)
    shutil.copy(empty_store, folder.parent / "mlflow.db")
    shutil.copy(empty_study, folder / "study.db")
    (folder / "config.yaml").write_text(dump_config(parse_config(CONFIG, where="test")), encoding="utf-8")
    outcome, tracker = open_run(folder), Tracker(tell=print)
    outcome.note_begin()
    tracker.begin(outcome)
    for trial in (kit.trial(), kit.trial(1, reason=REASON)):
        outcome.study.append(trial)
        tracker.trial(outcome.study.trials[-1])
    outcome.note_end()
    tracker.finish()
    return outcome


@pytest.fixture(scope="module")
def address(study: Outcome) -> Iterator[str]:
    """The pages of that run, served by ``mnemotune ui``."""
    with serving(study.tracking_uri, cwd=study.folder) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


def test_it_stops_waiting_when_the_server_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    pages.main("http://127.0.0.1:9", -1, opens=False)
    assert capsys.readouterr().err == ""


def test_a_store_without_a_run_has_its_front_page(
    empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mnemotune.optimizer.views.tracking.app import charts

    store = shutil.copy(empty_store, tmp_path / "mlflow.db")
    monkeypatch.setenv("MLFLOW_BACKEND_STORE_URI", f"sqlite:///{store}")
    assert '{"address": "/", ' in charts()


def test_the_charts_are_those_of_the_newest_study_whatever_was_logged_after_it(
    study: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mnemotune.optimizer.views.tracking.app import charts

    shown, store = (Path(study.folder.parent / "mlflow.db"), tmp_path / "mlflow.db")
    uri = f"sqlite:///{shutil.copy(shown, store)}"
    with logged_run(uri, experiment="scores alone", name="evaluate native", params={}) as log:
        log({"memory_score": 0.5}, 0)
    monkeypatch.setenv("MLFLOW_BACKEND_STORE_URI", uri)
    (run,) = [run for run in MlflowClient(uri).search_runs(["1"]) if run.info.run_name == study.folder.name]
    assert f'"study": "{run.info.run_id}"' in charts()


@pytest.mark.slow
def test_the_server_says_where_the_newest_studys_charts_are(address: str, study: Outcome) -> None:
    give_up, log = time.monotonic() + 60, study.folder / "ui.log"
    while f"The newest study's charts: {address}/charts\n" not in log.read_text():
        assert time.monotonic() < give_up, log.read_text()
        time.sleep(0.2)


@pytest.mark.slow
@needs_browser
def test_a_browser_shows_the_newest_studys_charts_first_and_why_each_trial_was_dropped(
    address: str, study: Outcome, browser: Any
) -> None:
    (experiment,) = [e for e in MlflowClient(study.tracking_uri).search_experiments() if e.name == "mnemotune"]
    page, said = browser.new_page(viewport={"width": 1920, "height": 1000}), []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{address}/charts")
    page.locator(".js-plotly-plot").first.wait_for(timeout=90_000)
    assert f"/#/experiments/{experiment.experiment_id}/runs?compareRunsMode=CHART" in page.url
    for text in ("The search", "Scores and tokens a turn", "mine-001", "001 somebody of 0"):
        page.get_by_text(text, exact=False).first.wait_for(timeout=30_000)
    keep_picture(page, "mlflow-charts")
    assert page.get_by_text("Ask questions about your experiments").count() == 0, "no assistant opens over the charts"
    page.goto(f"{address}/#/experiments/{experiment.experiment_id}/traces")
    page.get_by_role("button", name="Detect issues in traces").wait_for(timeout=30_000)
    assert page.get_by_text("Detect Issues in Your Traces").count() == 0, "no hint lies over the traces"
    page.goto(f"{address}/#/experiments/{experiment.experiment_id}/runs?compareRunsMode=TABLE")
    for text in ("verdict", "dropped", "reason", REASON):
        page.get_by_text(text, exact=True).first.wait_for(timeout=30_000)
    assert [text for text in said if not any(known in text for known in OF_MLFLOW)] == []
