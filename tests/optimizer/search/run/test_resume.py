"""A run that was stopped goes on.

1. A run that was stopped anywhere and resumed is the run that was not stopped.
2. No user of the sealed test is seen before the search is over.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from mlflow import MlflowClient

from mnemotune.env.failed_checks import CALLS
from mnemotune.optimizer.config import Config, ConfigError, dump_config, load_config
from mnemotune.optimizer.search import run
from mnemotune.optimizer.search.outcome import CONSUMED, Outcome, open_run
from mnemotune.optimizer.search.run import refresh
from mnemotune.optimizer.search.sealed import write_tested
from mnemotune.optimizer.study import Study, StudyError
from mnemotune.optimizer.views.progress import INDENT
from mnemotune.optimizer.views.report import ReportWriter
from mnemotune.optimizer.views.tracking.tracker import Tracker
from running import TRIAL_2, Screen, Stop, assert_same_study, contents, go, go_on, no_calls, spent


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.85, 0.999])
@pytest.mark.exhaustive("share")
def test_a_run_that_fails_at_any_call_goes_on_to_the_same_end_invariant_1(
    share: float, finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    folder = runs / "run"
    with pytest.MonkeyPatch.context() as patched:
        no_calls(patched, after=int(share * spent(finished)))
        with pytest.raises((Stop, ExceptionGroup)):
            go(configured(), folder)
    assert_same_study(go_on(folder), finished, kit)


@pytest.mark.parametrize(
    ("words", "plug"),
    [("where the search starts", KeyboardInterrupt), (TRIAL_2, KeyboardInterrupt), ("The search is over", Stop)],
)
def test_a_run_that_is_stopped_between_trials_goes_on_to_the_same_end_invariant_1(
    words: str, plug: type[BaseException], finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    with pytest.raises(plug):
        go(configured(), runs / "run", Screen(words, plug))
    assert_same_study(go_on(runs / "run"), finished, kit)


def test_a_run_that_is_stopped_again_and_again_gets_there_invariant_1(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    """What a stop costs is the candidate under way: with this patience no candidate is ever given up."""
    folder, stops = runs / "run", 0
    largest = max(trial.ledger.total.calls for trial in finished.study.trials)
    tested = max(row.spend.total.calls for row in finished.test.rows.values())
    for start in (lambda: go(configured(), folder), *[lambda: go_on(folder)] * 12):
        with pytest.MonkeyPatch.context() as patched:
            no_calls(patched, after=max(largest, tested) + 100)
            try:
                outcome = start()
                break
            except (Stop, ExceptionGroup):
                stops += 1
    assert stops >= 2
    assert_same_study(outcome, finished, kit)


def test_a_resumed_run_prints_the_trials_that_it_has(stopped: Path) -> None:
    screen = Screen()
    go_on(stopped, screen=screen)
    rows = [line for line in screen.getvalue().splitlines() if line.startswith("    ")]
    numbers = [row.split()[0] for row in rows if not row.startswith(" " * INDENT)]
    assert numbers == [str(trial.number) for trial in open_run(stopped).study.trials]
    assert len(numbers) >= 5


def test_resuming_a_finished_run_spends_and_changes_nothing(
    copy: Path, finished: Outcome, monkeypatch: pytest.MonkeyPatch, kit: Any
) -> None:
    first = go_on(copy, views=True)  # the copy's view is made here
    before = contents(copy)
    no_calls(monkeypatch)
    again = go_on(copy, views=True)
    assert_same_study(again, finished, kit)
    assert contents(copy) == before
    assert again.as_json() == first.as_json()
    assert spent(again) == spent(finished)


@pytest.mark.parametrize("missing", ["config.yaml", "study.db"])
def test_only_a_run_folder_can_be_resumed(missing: str, copy: Path) -> None:
    (copy / missing).unlink()
    before = contents(copy)
    with pytest.raises(ConfigError, match=f"is no run folder: it has no {missing}"):
        go_on(copy)
    assert contents(copy) == before
    assert not (copy / missing).exists()


@pytest.mark.parametrize("name", ["splits.seed", "seed_policy", "search.acceptance"])
def test_a_config_that_was_changed_by_hand_is_refused_as_an_override_is_invariant_2(name: str, stopped: Path) -> None:
    file = stopped / "config.yaml"
    config = load_config(file)
    changed = {"splits.seed": "splits.seed=9", "seed_policy": "seed_policy=native"}
    edited = load_config(file, overrides=[changed.get(name, "search.acceptance=train")])
    assert edited != config
    file.write_text(dump_config(edited), encoding="utf-8")
    before = contents(stopped)
    with pytest.raises(ConfigError, match=rf"a run goes on with what it began with, so {name} cannot change"):
        go_on(stopped)
    assert contents(stopped) == before
    file.write_text(dump_config(config), encoding="utf-8")
    assert go_on(stopped).test.done


def test_what_could_not_be_noted_for_a_while_is_noted_afterwards_and_said_once(
    configured: Callable[..., Config], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([True, True])
    note = Study.note

    def unsteady(study: Study, name: str, value: Any) -> None:
        if name == CONSUMED and next(failures, False):
            raise StudyError("the study cannot be used (database is locked)")
        note(study, name, value)

    monkeypatch.setattr(Study, "note", unsteady)
    monkeypatch.setattr(run, "NOTE_EVERY_SECONDS", 0.01)
    screen = Screen()
    outcome = go(configured(), runs / "run", screen)
    said = [line for line in screen.getvalue().splitlines() if "could not be noted" in line]
    assert len(said) == 1
    assert next(failures, None) is None
    assert outcome.consumed.calls == spent(outcome)


def test_more_generations_can_be_asked_for_when_a_stopped_run_goes_on_invariant_1(
    finished: Outcome, configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    with pytest.raises(Stop):
        go(configured("search.generations=1"), runs / "run", Screen(TRIAL_2))
    outcome = go_on(runs / "run", "search.generations=2")
    assert_same_study(outcome, finished, kit)
    assert load_config(runs / "run" / "config.yaml").search.generations == 2


@pytest.mark.parametrize("override", ["search.objective=score-per-token", "search.generations=3", "search.veto=false"])
def test_a_search_that_is_over_cannot_change_before_its_sealed_test(
    override: str, searched_once: Path, tmp_path: Path
) -> None:
    """It would be told in the results, and nobody would have done it."""
    folder = Path(shutil.copytree(searched_once, tmp_path / "searched")) / "run"
    before = contents(folder)
    with pytest.raises(ConfigError, match=rf"{override.split('=')[0]} cannot change any more; .* start another run"):
        go_on(folder, override)
    assert contents(folder) == before


@pytest.mark.parametrize(
    "override",
    ["track_options={a: 1}", "splits.seed=1", "splits.train=3", "test_data=generated:9@1", "seed_policy=native"],
)
def test_a_run_cannot_go_on_with_other_users_or_another_seed_policy_invariant_2(override: str, stopped: Path) -> None:
    """Users that the search has learned from would be dealt into the sealed test."""
    before = contents(stopped)
    with pytest.raises(ConfigError, match=override.split("=")[0]):
        go_on(stopped, override)
    assert contents(stopped) == before


def test_the_config_of_a_finished_run_stays_the_one_that_it_ran_under(
    copy: Path, configured: Callable[..., Config]
) -> None:
    """More generations are either searched or refused; a config that was not run is never written down."""
    try:
        outcome = go_on(copy, "search.generations=3")
    except ConfigError:
        assert load_config(copy / "config.yaml") == configured()
    else:
        assert len(outcome.study.trials) == 7


def test_a_report_and_results_that_are_lost_are_made_again_from_the_study(copy: Path) -> None:
    refresh(copy, listeners=[ReportWriter(), Tracker(tell=print)])
    before = contents(copy)
    for name in ("best_policy.yaml", "report.html", "result.json"):
        (copy / name).unlink()
    refresh(copy, listeners=[ReportWriter(), Tracker(tell=print)])
    assert contents(copy) == before


def test_a_run_that_was_stopped_has_a_report_before_it_goes_on(stopped: Path) -> None:
    assert refresh(stopped, listeners=[ReportWriter(), Tracker(tell=print)]).as_json()["trials"] == 3
    assert "has not been opened yet" in (stopped / "report.html").read_text(encoding="utf-8")


def test_a_run_that_was_stopped_at_once_has_a_report_too(configured: Callable[..., Config], runs: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        no_calls(patched)
        with pytest.raises((Stop, ExceptionGroup)):
            go(configured(), runs / "run")
    refresh(runs / "run", listeners=[ReportWriter(), Tracker(tell=print)])
    assert "has not been opened yet" in (runs / "run" / "report.html").read_text(encoding="utf-8")


def views(folder: Path) -> Iterable[str]:
    client = MlflowClient(tracking_uri=open_run(folder).tracking_uri)
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    return [run.info.status for run in runs if "mlflow.parentRunId" not in run.data.tags]


def test_looking_at_a_run_that_was_stopped_does_not_call_it_finished(stopped: Path) -> None:
    assert views(stopped) == ["KILLED"]
    refresh(stopped, listeners=[ReportWriter(), Tracker(tell=print)])
    assert views(stopped) == ["KILLED"]
    go_on(stopped, views=True)
    assert views(stopped) == ["FINISHED"]


def test_a_sealed_test_that_is_stopped_between_two_policies_keeps_the_calls_of_the_first(
    searched_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(searched_once, tmp_path / "searched")) / "run"

    def stop_at_seed(place: Path, *args: Any) -> None:
        if place.name == "seed":
            raise Stop
        write_tested(place, *args)

    with monkeypatch.context() as patched:
        patched.setattr(run, "write_tested", stop_at_seed)
        with pytest.raises(Stop):
            go_on(folder)
    calls = (folder / "test" / "evolved" / CALLS).read_bytes()
    assert go_on(folder).test.done
    assert (folder / "test" / "evolved" / CALLS).read_bytes() == calls
    assert (folder / "test" / "seed" / CALLS).is_file()


def test_a_second_process_is_kept_out_of_a_run(stopped: Path) -> None:
    with FileLock(stopped / ".lock"), pytest.raises(ConfigError, match="another process is at work"):
        go_on(stopped)
