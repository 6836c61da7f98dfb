"""MLflow's view, brought up to date and made again: it is what the study and the run's folder make of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from failing import GROUPS, write_failures
from mlflow_view import ROWS, View, finish, follow, row, told
from mnemotune.optimizer.search.outcome import TEST, Outcome, open_run
from mnemotune.optimizer.search.sealed import SealedTest
from mnemotune.optimizer.views.tracking.tracker import Tracker


def show(outcome: Outcome, *, rebuild: bool = False) -> View:
    """Bring MLflow up to date, as ``mnemotune report`` does, or throw the view away and make it anew."""
    tracker = Tracker(tell=print, rebuild=rebuild)
    tracker.begin(open_run(outcome.folder))
    tracker.finish()
    return View(outcome)


def test_a_view_that_is_lost_is_made_again_from_the_study_invariant_2(
    outcome: Outcome, trials: list[Any], empty_store: Path, tmp_path: Path
) -> None:
    finish(outcome, follow(outcome, trials))
    folder = Path(shutil.copytree(outcome.folder, tmp_path / "copies" / outcome.folder.name))
    shutil.copy(empty_store, folder.parent / "mlflow.db")
    tracker = Tracker(tell=print)
    tracker.begin(again := open_run(folder))
    tracker.finish()
    view = View(again)
    assert told(view) == told(View(outcome))
    assert view.text(view.parent, "report.html") == "the report.html"
    assert view.text(view.children[0], "policy.yaml")


def test_a_view_is_thrown_away_and_made_anew_as_it_was_logged_live_invariant_2(
    outcome: Outcome, trials: list[Any]
) -> None:
    finish(outcome, follow(outcome, trials))
    live, before = View(outcome), told(View(outcome))
    view = show(outcome, rebuild=True)
    assert told(view) == before
    assert view.parent.info.run_id != live.parent.info.run_id
    assert live.client.list_artifacts(live.parent.info.run_id) == []
    assert view.text(view.parent, "report.html") == "the report.html"


def test_a_sealed_test_that_is_part_done_leaves_nothing_that_a_rebuild_lacks_invariant_2(
    outcome: Outcome, trials: list[Any]
) -> None:
    tracker, part = follow(outcome, trials), {"seed": ROWS["seed"], "evolved": row(0.6, a=0.6)}
    outcome.study.note(TEST, SealedTest(part, "the budget ended", done=False).as_json())
    tracker.finish()
    assert View(outcome).tested == {}
    outcome.note_end()
    finish(outcome, tracker)
    live = View(outcome)
    assert set(live.tested) == set(ROWS)
    assert set(live.points().values()) == {1}
    assert len(live.parent.inputs.dataset_inputs) == 3
    assert told(show(outcome, rebuild=True)) == told(live)


def test_failed_checks_are_traces_once_and_the_same_ones_after_a_rebuild_invariant_1_and_2(
    outcome: Outcome, trials: list[Any]
) -> None:
    write_failures(outcome.folder, with_calls=GROUPS[:2])
    finish(outcome, follow(outcome, trials))
    traces = View(outcome).traces
    assert len(traces) == 6
    calls = [sum(span["attributes"].get("role") is not None for span in spans) for spans in traces.values()]
    assert sorted(calls) == [0, 0, 4, 4, 4, 4]
    assert show(outcome).traces == traces
    assert show(outcome, rebuild=True).traces == traces
