"""Failed checks of the sealed test as MLflow's traces."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mlflow import MlflowClient

from failing import GROUPS, NOON, write_failures
from mnemotune.optimizer.views.tracking.trace_log import TraceLog
from mnemotune.optimizer.views.tracking.traces import MOST_CHARACTERS, MOST_OF_A_KIND, MOST_SENT, failed_traces

TESTED = ("seed", "evolved")


@dataclass(frozen=True)
class Store:
    """MLflow's store with an experiment and a run."""

    uri: str
    client: MlflowClient
    experiment: str
    run: str


@pytest.fixture
def store(empty_store: Path, tmp_path: Path) -> Store:
    uri = f"sqlite:///{shutil.copy(empty_store, tmp_path / 'mlflow.db')}"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("study", artifact_location=(tmp_path / "artifacts").as_uri())
    return Store(uri, client, experiment, client.create_run(experiment).info.run_id)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder: the seed policy failed with all groups, the evolved one with the first four."""
    write_failures(tmp_path)
    return tmp_path


def test_few_failures_of_each_policy_are_followed_those_that_the_other_got_right_first(folder: Path) -> None:
    traces = list(failed_traces(folder))
    groups = {name: [t.tags["group"] for t in traces if t.policy == name] for name in TESTED}
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


def test_traces_are_logged_under_their_run_and_can_be_thrown_away(folder: Path, store: Store) -> None:
    log, other = (TraceLog(store.uri, store.experiment, study) for study in ("mine", "another"))
    failed, moment = next(failed_traces(folder)), datetime(2026, 3, 2, 9, tzinfo=UTC)
    log.add(failed, run=store.run, at=moment)
    assert log.known() == {log.id_of(failed)}
    assert other.known() == set()
    (trace,) = store.client.search_traces(locations=[store.experiment], run_id=store.run)
    assert [span.name for span in trace.data.spans] == ["seed: lost in read", *(step.name for step in failed.steps)]
    root, said, *_ = trace.data.spans
    assert root.inputs == "When do I run?"
    assert root.outputs["what happened"] == "Right answer: at dawn"
    assert said.parent_id == root.span_id
    assert trace.info.request_time == round(moment.timestamp() * 1000)
    assert trace.info.tags.items() >= failed.tags.items()
    log.throw_away()
    assert log.known() == set()


# Calls


@pytest.fixture
def calls_folder(tmp_path: Path) -> Path:
    """The same, with the calls of three groups, with all of which the evolved policy failed too, and of a fourth."""
    write_failures(tmp_path, with_calls=[GROUPS[1], GROUPS[2], GROUPS[6]])
    return tmp_path


def test_failures_whose_calls_are_recorded_are_followed_first(calls_folder: Path) -> None:
    groups = {name: [t.tags["group"] for t in failed_traces(calls_folder) if t.policy == name] for name in TESTED}
    assert groups == {"seed": [GROUPS[6], GROUPS[1], GROUPS[2]], "evolved": [GROUPS[1], GROUPS[2], GROUPS[0]]}


def test_a_step_has_the_calls_that_made_it_with_their_texts_cut(calls_folder: Path) -> None:
    said, write, read, came_back, answer = next(failed_traces(calls_folder)).steps
    assert [[call.role for call in step.calls] for step in (said, write, read, came_back, answer)] == [
        ["reply"], ["write"], [], [], ["answer", "probe"]
    ]  # fmt: skip
    (reply,) = said.calls
    assert [len(message["content"]) for message in reply.messages] == [MOST_SENT, len("When do I run?")]
    assert reply.reply["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"day": 1}'}
    assert (reply.model, reply.tools, reply.input_tokens, reply.output_tokens) == ("small", ["look"], 100, 20)
    assert (reply.began, reply.ended) == (NOON, NOON + 0.5)


def test_calls_are_spans_below_their_steps_when_they_were(calls_folder: Path, store: Store) -> None:
    failed = next(failed_traces(calls_folder))
    log = TraceLog(store.uri, store.experiment, "mine")
    log.add(failed, run=store.run, at=datetime(2026, 3, 2, 9, tzinfo=UTC))
    (trace,) = store.client.search_traces(locations=[store.experiment], run_id=store.run)
    spans, names = trace.data.spans, {span.span_id: span.name for span in trace.data.spans}
    seconds = {s.name: tuple(round(ns / 1e9 - NOON, 3) for ns in (s.start_time_ns, s.end_time_ns)) for s in spans}
    assert [(s.name, names.get(s.parent_id)) for s in spans if s.span_type == "CHAT_MODEL"] == [
        ("reply call", "1.1 say"),
        ("write call", "1.1 write"),
        ("answer call", "answer"),
        ("probe call", "answer"),
    ]
    assert seconds == {
        "seed: lost in read": (0.0, 3600.75),
        "1.1 say": (0.0, 0.5),
        "reply call": (0.0, 0.5),
        "1.1 write": (1.5, 3.5),
        "write call": (1.5, 3.5),
        "3.1 read": (3600.0, 3600.0),
        "what came back": (3600.0, 3600.0),
        "answer": (3600.0, 3600.75),
        "answer call": (3600.0, 3600.5),
        "probe call": (3600.25, 3600.75),
    }
    assert (trace.info.request_time, trace.info.execution_duration) == (round(NOON * 1000), 3_600_750)
    assert trace.info.token_usage == {"input_tokens": 400, "output_tokens": 80, "total_tokens": 480}
    reply = next(span for span in spans if span.name == "reply call")
    assert "mlflow.llm.cost" not in reply.attributes, "MLflow takes seconds to look prices up, and the run has its own"
    assert reply.inputs["messages"][1] == {"role": "user", "content": "When do I run?"}
    assert reply.outputs["choices"][0]["message"]["content"] == "a reply"
    assert reply.attributes.items() >= {"role": "reply", "cached": False, "tools": ["look"]}.items()


def test_long_accounts_are_cut(tmp_path: Path) -> None:
    write_failures(tmp_path, account="and on " * 1000)
    assert {len(trace.account) for trace in failed_traces(tmp_path)} == {MOST_CHARACTERS}
