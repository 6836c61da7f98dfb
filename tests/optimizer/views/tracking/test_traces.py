"""Failed checks of the sealed test as MLflow's traces."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mlflow import MlflowClient

from failing import GROUPS, write_failures
from mnemotune.optimizer.views.tracking.trace_log import TraceLog
from mnemotune.optimizer.views.tracking.traces import MOST_CHARACTERS, MOST_OF_A_KIND, failed_traces


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder: the seed policy failed with all groups, the evolved one with the first four."""
    write_failures(tmp_path)
    return tmp_path


def test_few_failures_of_each_policy_are_followed_those_that_the_other_got_right_first(folder: Path) -> None:
    traces = list(failed_traces(folder))
    groups = {name: [t.tags["group"] for t in traces if t.policy == name] for name in ("seed", "evolved")}
    assert groups == {"seed": GROUPS[4 : 4 + MOST_OF_A_KIND], "evolved": GROUPS[:MOST_OF_A_KIND]}


def test_a_trace_has_what_memory_met_where_the_fact_was_told_and_where_it_was_asked(folder: Path) -> None:
    trace = next(failed_traces(folder))
    assert [step.name for step in trace.steps] == ["1.1 say", "1.1 write", "3.1 read", "what came back", "answer"]
    said, write, read, came_back, answer = trace.steps
    assert len(said.inputs[0]["content"]) == MOST_CHARACTERS
    assert write.outputs == {"removed": [], "added": ["- runs at dawn"]}
    assert read.outputs == {"shown_tokens": 12}
    assert (came_back.inputs, came_back.outputs) == ("When do I run?", ["- naps", "Never\nmind."])
    assert answer.inputs["facts needed"] == [{"key": "running_time", "known_then": True, "known": True, "shown": False}]
    assert (trace.question, trace.answer, trace.account) == ("When do I run?", '{"answer": 3}', "Right answer: at dawn")
    expected = {"policy": "seed", "kind": "read", "topic": "running", "stage": "3", "check": "2.0"}
    assert trace.tags == {**expected, "group": GROUPS[4], "task": GROUPS[4]}


def test_a_run_without_failures_on_disk_has_no_traces(tmp_path: Path) -> None:
    assert list(failed_traces(tmp_path)) == []


def test_traces_are_logged_under_their_run_and_can_be_thrown_away(
    folder: Path, empty_store: Path, tmp_path: Path
) -> None:
    uri = f"sqlite:///{shutil.copy(empty_store, tmp_path / 'mlflow.db')}"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("study", artifact_location=(tmp_path / "artifacts").as_uri())
    run = client.create_run(experiment).info.run_id
    log, other = (TraceLog(uri, experiment, study) for study in ("mine", "another"))
    failed, moment = next(failed_traces(folder)), datetime(2026, 3, 2, 9, tzinfo=UTC)
    log.add(failed, run=run, at=moment)
    assert log.known() == {log.id_of(failed)}
    assert other.known() == set()
    (trace,) = client.search_traces(locations=[experiment], run_id=run)
    assert [span.name for span in trace.data.spans] == ["seed: lost in read", *(step.name for step in failed.steps)]
    root, said, *_ = trace.data.spans
    assert root.inputs == "When do I run?"
    assert root.outputs["what happened"] == "Right answer: at dawn"
    assert said.parent_id == root.span_id
    assert trace.info.request_time == round(moment.timestamp() * 1000)
    assert trace.info.tags.items() >= failed.tags.items()
    log.throw_away()
    assert log.known() == set()


def test_long_accounts_are_cut(tmp_path: Path) -> None:
    write_failures(tmp_path, account="and on " * 1000)
    assert {len(trace.account) for trace in failed_traces(tmp_path)} == {MOST_CHARACTERS}
