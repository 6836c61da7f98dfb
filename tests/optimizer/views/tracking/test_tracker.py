"""MLflow's view of a study, in a real store.

1. What is in the view is what the study holds; nothing is in it twice, however often it is brought up to date.
2. The view can be thrown away: the study makes it again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from mlflow_server import serving
from mlflow_view import ROWS, View, finish, follow, row
from mnemotune.optimizer.config import ConfigError, dump_config, parse_config
from mnemotune.optimizer.search.listener import Standing
from mnemotune.optimizer.search.outcome import STUDY, TEST, Outcome, open_run, study_url
from mnemotune.optimizer.search.screen import MEASURED, rank_correlation
from mnemotune.optimizer.search.sealed import SealedTest
from mnemotune.optimizer.study import Study
from mnemotune.optimizer.views.tracking.tracker import PARENT_TAG, Tracker
from mnemotune.policies.files import parse_policy
from mnemotune.policies.lm import Budget, Consumed, Limits

CONFIG = "{data: base, splits: {train: 2, validation: 2, test: 3}, seed_policy: native, search: {seed: 5}}"


def test_the_study_is_the_parent_run_and_each_trial_a_child(outcome: Outcome, trials: list[Any]) -> None:
    finish(outcome, follow(outcome, trials))
    view = View(outcome)
    assert view.parent.info.run_name == "mine-001"
    assert view.parent.info.status == "FINISHED"
    assert [child.info.run_name for child in view.children] == [
        "000 seed", "001 somebody of 0", "002 somebody of 0", "003 somebody of 2"
    ]  # fmt: skip
    assert {child.data.tags[PARENT_TAG] for child in view.children} == {view.parent.info.run_id}
    assert [child.info.status for child in view.children] == ["FINISHED", "FAILED", "FINISHED", "FINISHED"]
    assert [child.data.tags["verdict"] for child in view.children] == ["accepted", "dropped", "dropped", "accepted"]


def test_a_runs_config_and_a_trials_numbers_are_params(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials)
    view = View(outcome)
    params = view.parent.data.params
    assert params["data"] == "base"
    assert params["model"] == "embedded"
    assert params["seed"] == "5"
    assert [params[f"users.{split}"] for split in ("train", "validation", "test")] == ["2", "2", "3"]
    told = view.children[3].data.params
    assert told["write.mode"] == "profile"
    assert told["store"] == "external"
    assert [told[name] for name in ("update_every", "buffer_size", "top_k")] == ["4", "6", "9"]
    assert (told["generation"], told["parent"]) == ("3", "2")
    assert told["key"] == trials[3].policy.key
    assert (told["proposer"], told["policy"]) == ("somebody", "profile+external(4,6,9)")
    assert view.children[1].data.params == {
        "generation": "1", "parent": "0", "kind": "candidate", "proposer": "somebody", "policy": "not valid"
    }  # fmt: skip


def test_a_trials_scores_shares_and_spend_are_metrics(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials)
    metrics = View(outcome).children[3].data.metrics
    assert metrics["train_score"] == pytest.approx(0.875)
    assert metrics["validation_score"] == pytest.approx(0.7)
    assert metrics["train_score_low"] < 0.875 < metrics["train_score_high"]
    assert metrics["turn/tokens"] == 150
    assert metrics["accuracy"] == pytest.approx(0.5)
    assert metrics["share/utilisation"] == pytest.approx(0.3)
    assert (metrics["calls"], metrics["tokens"], metrics["cost_usd"]) == (200, 2200, 0)


def test_what_a_trial_has_no_score_for_is_left_out(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials)
    children = View(outcome).children
    assert "train_score" not in children[1].data.metrics
    assert "validation_score" not in children[2].data.metrics


def test_a_trial_tells_its_change_and_its_reason_and_keeps_its_policy(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials)
    view = View(outcome)
    note = view.children[3].data.tags["mlflow.note.content"]
    reason = "better: +0.400 [+0.100, +0.700] over trial 0 on validation"
    assert "asked for more care" in note
    assert reason in note
    tags = view.children[3].data.tags
    assert (tags["verdict"], tags["reason"], tags["decided_at"]) == ("accepted", reason, "validate")
    assert parse_policy(view.text(view.children[3], "policy.yaml"), where="view") == trials[3].policy


def test_the_parents_curves_have_a_point_for_each_trial(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials)
    view = View(outcome)
    best = [(0, 0.3), (1, 0.3), (2, 0.3), (3, 0.7)]
    assert view.curve("best/validation_score") == [(step, pytest.approx(value)) for step, value in best]
    assert view.curve("spent/calls") == [(0, 100), (1, 101), (2, 141), (3, 341)]
    assert [step for step, _ in view.curve("trial/train_score")] == [0, 3], "a lost race has no whole score"


def test_the_rank_correlation_of_forecasts_is_rounded(outcome: Outcome, kit: Any) -> None:
    scores = [0.05 * (number * 5 % MEASURED) for number in range(MEASURED)]
    follow(outcome, [kit.trial(n, train={"a": score}, forecast=0.05 * n) for n, score in enumerate(scores)])
    ((_, shown),) = View(outcome).curve("screen/rank_correlation")
    known = rank_correlation(outcome.study.trials)
    assert shown == round(known, 4) != known


def test_the_sealed_test_and_the_runs_files_are_on_the_parent(outcome: Outcome, trials: list[Any]) -> None:
    finish(outcome, follow(outcome, trials))
    view = View(outcome)
    metrics = view.parent.data.metrics
    assert metrics["test/evolved/memory_score"] == pytest.approx(0.6)
    assert {name: run.data.metrics.get("memory_score") for name, run in view.tested.items()} == {
        "native": None, "seed": pytest.approx(0.3), "evolved": pytest.approx(0.6)
    }  # fmt: skip
    assert metrics["test/seed/share/write"] == pytest.approx(0.2)
    assert metrics["test/gain"] == pytest.approx(0.35)
    assert metrics["test/gain_low"] < 0.35 < metrics["test/gain_high"]
    assert "test/native/memory_score" not in metrics, "what has no score is left out"
    assert view.text(view.parent, "report.html") == "the report.html"
    assert view.text(view.parent, "best_policy.yaml") == "the best_policy.yaml"
    kept = {file.path for file in view.client.list_artifacts(view.parent.info.run_id)}
    assert kept == {"config.yaml", "best_policy.yaml", "report.html", "result.json"}


@pytest.mark.parametrize("name", ["./mine.yaml", "../mine.yaml", "/there/mine.yaml", "pol/a+b (v2)|x.yaml"])
def test_a_baseline_s_name_of_any_characters_keeps_nothing_out(outcome: Outcome, trials: list[Any], name: str) -> None:
    finish(outcome, follow(outcome, trials), rows=ROWS | {name: row(0.4)})
    view = View(outcome)
    assert view.parent.info.status == "FINISHED"
    metrics = view.parent.data.metrics
    assert metrics["test/evolved/memory_score"] == pytest.approx(0.6)
    assert [value for key, value in metrics.items() if "yaml" in key and key.endswith("/memory_score")] == [0.4]
    assert name in view.tested


def test_prompts_and_policies_are_in_the_registry_and_linked_from_the_run(outcome: Outcome, trials: list[Any]) -> None:
    finish(outcome, follow(outcome, trials))
    view, best = View(outcome), trials[3].policy
    assert sorted(prompt.name for prompt in view.client.search_prompts()) == [
        "mine-001.policy", "mine-001.reply", "mine-001.write"
    ]  # fmt: skip
    experiment = view.parent.info.experiment_id
    listed = view.client.search_prompts(filter_string=f"experiment_id = '{experiment}'")
    assert len(listed) == 3, "the experiment's own page lists them"
    policies = {alias: view.prompt("policy", alias) for alias in ("seed", "best")}
    assert parse_policy(policies["best"].template, where="registry") == best
    assert parse_policy(policies["seed"].template, where="registry") == outcome.config.seed_policy
    reply = view.prompt("reply", "best")
    assert reply.variables == {"memories"}
    assert reply.format(memories="none") == best.prompts.reply.replace("{memories}", "none")
    linked = json.loads(view.parent.data.tags["mlflow.linkedPrompts"])
    assert {"name": "mine-001.policy", "version": str(policies["best"].version)} in linked
    tracker = Tracker(tell=print, rebuild=True)
    tracker.begin(open_run(outcome.folder))
    assert list(view.client.search_prompts()) == [], "a view that is thrown away leaves nothing"


def test_a_prompt_of_two_experiments_is_listed_on_the_pages_of_both(
    outcome: Outcome, trials: list[Any], make_storage: Callable[[], str]
) -> None:
    finish(outcome, follow(outcome, trials))
    other = outcome.folder.parent / "others" / outcome.folder.name
    other.mkdir(parents=True)
    shutil.copy(make_storage().removeprefix("sqlite:///"), other / "study.db")
    settings = [f"tracking={{uri: '{outcome.tracking_uri}', experiment: another}}"]
    (other / "config.yaml").write_text(dump_config(parse_config(CONFIG, where="test", overrides=settings)))
    second = open_run(other)
    finish(second, follow(second, trials))
    view = View(outcome)
    ids = [each.experiment_id for each in view.experiments if each.name in {"mnemotune", "another"}]
    listed = [view.client.search_prompts(filter_string=f"experiment_id = '{experiment}'") for experiment in ids]
    assert [len(prompts) for prompts in listed] == [3, 3]


def test_the_groups_that_were_played_are_the_runs_datasets(outcome: Outcome, trials: list[Any]) -> None:
    finish(outcome, follow(outcome, trials))
    inputs = View(outcome).parent.inputs.dataset_inputs
    assert {each.tags[0].value: (each.dataset.name, json.loads(each.dataset.profile)) for each in inputs} == {
        "train": ("base train", {"users": 2}),
        "validation": ("base validation", {"users": 2}),
        "sealed": ("base sealed", {"users": 2}),
    }
    assert len({each.dataset.digest for each in inputs}) == 3


def test_the_view_is_kept_beside_the_runs_whatever_the_working_folder(outcome: Outcome, trials: list[Any]) -> None:
    finish(outcome, follow(outcome, trials))
    runs = outcome.folder.parent
    assert sorted(path.name for path in runs.iterdir()) == [".mlflow.db.lock", "mine-001", "mlartifacts", "mlflow.db"]
    assert list(Path.cwd().iterdir()) == []


def test_a_resumed_run_goes_on_under_the_same_parent_invariant_1(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials[:2]).abort()
    again = open_run(outcome.folder)
    finish(again, follow(again, trials[2:]))
    view = View(outcome)
    assert view.parent.info.status == "FINISHED"
    assert len(view.children) == 4
    assert [step for step, _ in view.curve("spent/calls")] == [0, 1, 2, 3]
    assert set(view.points().values()) == {1}


def test_the_sealed_tests_scores_have_intervals_and_are_told_by_reader(outcome: Outcome, trials: list[Any]) -> None:
    readers, others = {"a": "keen", "b": "slow", "c": "keen"}, {"a": 0.1, "b": 0.3, "c": 0.5}
    scores = row(0.5, a=0.5, b=0.4, c=0.7)
    evolved = replace(scores, readers=readers, evidence_by_group=others, reworded_by_group=others)
    tracker = follow(outcome, trials)
    outcome.study.note(TEST, SealedTest({"evolved": evolved}, "", done=True).as_json())
    tracker.finish()
    metrics = View(outcome).tested["evolved"].data.metrics
    assert (metrics["by_reader/keen"], metrics["by_reader/slow"]) == pytest.approx((0.6, 0.4))
    assert metrics["by_reader/keen_low"] < 0.6 < metrics["by_reader/keen_high"]
    for name in ("evidence_recall", "reworded"):
        assert metrics[name] == pytest.approx(0.3)
        assert metrics[f"{name}_low"] < 0.3 < metrics[f"{name}_high"]


def test_a_stopped_run_is_killed_and_a_resumed_one_is_running(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials[:2]).abort()
    assert View(outcome).parent.info.status == "KILLED"
    Tracker(tell=print).begin(open_run(outcome.folder))
    assert View(outcome).parent.info.status == "RUNNING"


def test_bringing_a_finished_run_up_to_date_logs_nothing_twice_invariant_1(outcome: Outcome, trials: list[Any]) -> None:
    finish(outcome, follow(outcome, trials))
    before, end = View(outcome).points(), View(outcome).parent.info.end_time
    for _ in range(2):
        tracker = Tracker(tell=print)
        tracker.begin(open_run(outcome.folder))
        tracker.finish()
    view = View(outcome)
    assert view.points() == before
    assert set(before.values()) == {1}
    assert len(view.children) == 4
    assert view.parent.info.status == "FINISHED"
    assert view.parent.info.end_time == end, "looking at a run does not prolong it"


def test_trials_that_a_killed_run_could_not_show_are_added_invariant_1(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials[:1])
    for trial in trials[1:]:
        outcome.study.append(trial)
    Tracker(tell=print).begin(open_run(outcome.folder))
    view = View(outcome)
    assert len(view.children) == 4
    assert [step for step, _ in view.curve("spent/calls")] == [0, 1, 2, 3]


def test_a_trials_run_has_its_moments(outcome: Outcome, trials: list[Any]) -> None:
    began, ended = (datetime(2026, 3, 2, hour, tzinfo=UTC) for hour in (9, 10))
    study = Study(study_url(outcome.folder), name=STUDY, clock=lambda: ended)
    follow(replace(outcome, study=study), trials)
    infos = [child.info for child in View(outcome).children]
    assert {info.end_time for info in infos} == {round(ended.timestamp() * 1000)}
    assert infos[3].start_time == round(began.timestamp() * 1000)


def test_two_runs_share_an_experiment_and_nothing_else(
    outcome: Outcome, trials: list[Any], make_storage: Callable[[], str]
) -> None:
    finish(outcome, follow(outcome, trials))
    other = outcome.folder.parent / "mine-002"
    other.mkdir()
    shutil.copy(make_storage().removeprefix("sqlite:///"), other / "study.db")
    shutil.copy(outcome.folder / "config.yaml", other / "config.yaml")
    follow(open_run(other), trials[:1])
    view = View(outcome)
    assert sorted(run.info.run_name for run in view.parents) == ["mine-001", "mine-002"]
    assert len({run.info.experiment_id for run in view.parents}) == 1
    assert Counter(child.data.tags[PARENT_TAG] for child in view.children) == {
        run.info.run_id: 4 if run.info.run_name == "mine-001" else 1 for run in view.parents
    }


def test_a_run_that_was_moved_to_another_name_is_found_again(outcome: Outcome, trials: list[Any]) -> None:
    follow(outcome, trials).abort()
    outcome.folder.rename(outcome.folder.parent / "renamed")
    Tracker(tell=print).begin(open_run(outcome.folder.parent / "renamed"))
    assert len(View(outcome).parents) == 1


def test_a_view_that_breaks_ends_nothing_and_says_once_how_to_bring_it_up_to_date(
    outcome: Outcome, trials: list[Any]
) -> None:
    told: list[str] = []
    tracker = Tracker(tell=told.append)
    tracker.begin(outcome)
    tracker.stand(Standing("searching", Budget(Limits(), earlier=Consumed(calls=1))))
    database = outcome.tracking_uri.removeprefix("sqlite:///")
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE metrics RENAME TO gone")
    for trial in trials:
        outcome.study.append(trial)
        tracker.trial(outcome.study.trials[-1])
    tracker.abort()
    finish(outcome, tracker)
    assert len(told) == 1
    assert f"mnemotune report {outcome.folder}" in told[0]
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE gone RENAME TO metrics")
    Tracker(tell=told.append).begin(outcome)
    assert len(View(outcome).children) == len(trials)


@pytest.mark.parametrize(
    "uri",
    ["nonsense://x", "postgresql://127.0.0.1:9/none", "http://127.0.0.1:9", f"sqlite:///{__file__}/mlflow.db"],
)
def test_a_store_that_cannot_be_used_is_a_config_error_that_names_it_before_the_run_begins(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # as it is, MLflow asks for minutes
    config = parse_config(CONFIG, where="test", overrides=[f"tracking.uri={uri}"])
    with pytest.raises(ConfigError) as caught:
        Tracker(tell=print).check(config)
    assert str(caught.value).startswith(f"tracking.uri: MLflow cannot use {uri}: ")
    assert "\n" not in str(caught.value)


def test_a_store_that_fails_once_the_run_has_begun_ends_nothing_and_says_how_to_show_the_run(
    outcome: Outcome, trials: list[Any]
) -> None:
    config = parse_config(CONFIG, where="test", overrides=["tracking.uri=sqlite:////proc/none/mlflow.db"])
    told: list[str] = []
    tracker = Tracker(tell=told.append)
    tracker.begin(Outcome(outcome.folder, config, outcome.study))
    for trial in trials:
        outcome.study.append(trial)
        tracker.trial(outcome.study.trials[-1])
    tracker.finish()
    (said,) = told
    assert said.startswith("MLflow shows nothing of this run: tracking.uri: MLflow cannot use sqlite:////proc/none")
    assert f"mnemotune report {outcome.folder}" in said


def test_mlflow_is_opened_once_the_first_calls_of_a_new_study_are_made(outcome: Outcome) -> None:
    tracker, budget = Tracker(tell=print), Budget(Limits())
    tracker.begin(outcome)
    tracker.stand(Standing("searching", budget))
    assert not View(outcome).parents
    tracker.stand(Standing("searching", Budget(Limits(), earlier=Consumed(calls=1))))
    assert View(outcome).parent.info.status == "RUNNING"


def test_a_file_that_is_no_database_is_a_config_error(outcome: Outcome, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database\n" * 100)
    config = parse_config(CONFIG, where="test", overrides=[f"tracking.uri=sqlite:///{tmp_path / 'notes.txt'}"])
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        Tracker(tell=print).check(config)
    assert (tmp_path / "notes.txt").read_text() == "no database\n" * 100


@pytest.mark.slow
def test_the_pages_are_served_and_end_with_the_command(outcome: Outcome, trials: list[Any]) -> None:
    finish(outcome, follow(outcome, trials))
    with serving(outcome.tracking_uri, cwd=Path.cwd()) as address:
        with urllib.request.urlopen(address, timeout=20) as page:  # noqa: S310
            assert "MLflow" in page.read().decode()
        served = MlflowClient(tracking_uri=address)
        (experiment,) = [e for e in served.search_experiments() if e.name == "mnemotune"]
        names = {run.info.run_name for run in served.search_runs([experiment.experiment_id])}
        assert {"mine-001", "003 somebody of 2"} <= names


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        (
            "postgresql://***@db/x",
            "tracking.uri: the password of postgresql://***@db/x is not written down: set MLFLOW",
        ),
        ("nonsense://me:secret@host/x", "tracking.uri: MLflow cannot use nonsense://***@host/x: "),
    ],
)
def test_a_store_that_cannot_be_used_is_named_without_its_password(uri: str, said: str) -> None:
    config = parse_config(CONFIG, where="test", overrides=[f"tracking.uri='{uri}'"])
    with pytest.raises(ConfigError) as caught:
        Tracker(tell=print).check(config)
    assert str(caught.value).startswith(said)
    assert "secret" not in str(caught.value)
