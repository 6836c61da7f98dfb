"""MLflow's view of a run, read back from its store."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Run

from mnemotune.env import Summary
from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.search.outcome import ENDED, TEST, Outcome
from mnemotune.optimizer.search.sealed import SealedTest
from mnemotune.optimizer.views.tracking.tracker import PARENT_TAG, TESTED_TAG, Tracker

SHARES = {"write": 0.2, "read": 0.1, "utilisation": 0.15}


def row(score: float, **by_group: float) -> Summary:
    known = Estimate(score, score, score, len(by_group))
    return Summary(policy="", memory_score=known, accuracy=0.55, shares=SHARES, by_group=by_group)


ROWS = {"native": row(math.nan), "seed": row(0.3, a=0.2, b=0.4), "evolved": row(0.6, a=0.6, b=0.7)}


def follow(outcome: Outcome, trials: list[Any]) -> Tracker:
    """Track a search as it goes."""
    tracker = Tracker(tell=print)
    outcome.note_begin()
    tracker.begin(outcome)
    for trial in trials:
        outcome.study.append(trial)
        tracker.trial(outcome.study.trials[-1])
    outcome.note_end()
    return tracker


def finish(outcome: Outcome, tracker: Tracker, rows: Mapping[str, Summary] = ROWS) -> None:
    outcome.study.note(ENDED, "all generations are done")
    outcome.study.note(TEST, SealedTest(dict(rows), "", done=True).as_json())
    for name in ("best_policy.yaml", "report.html", "result.json"):
        (outcome.folder / name).write_text(f"the {name}", encoding="utf-8")
    tracker.finish()


class View:
    """What MLflow shows."""

    def __init__(self, outcome: Outcome) -> None:
        self.client = MlflowClient(tracking_uri=outcome.tracking_uri)
        self.experiments = self.client.search_experiments()
        found = self.client.search_runs([e.experiment_id for e in self.experiments], max_results=1000)
        self.parents = [run for run in found if PARENT_TAG not in run.data.tags]
        children = sorted((run for run in found if PARENT_TAG in run.data.tags), key=lambda run: run.info.run_name)
        self.children = [run for run in children if TESTED_TAG not in run.data.tags]
        self.tested = {run.data.tags[TESTED_TAG]: run for run in children if TESTED_TAG in run.data.tags}

    @property
    def parent(self) -> Run:
        (parent,) = self.parents
        return parent

    def curve(self, key: str) -> list[tuple[int, float]]:
        return [(m.step, m.value) for m in self.history(key)]

    def history(self, key: str) -> list[Metric]:
        return list(self.client.get_metric_history(self.parent.info.run_id, key))

    def points(self) -> Counter[tuple[str, str, int]]:
        """Count every logged value by run, name and step."""
        runs = [*self.parents, *self.children, *self.tested.values()]
        return Counter(
            (run.info.run_name, key, metric.step)
            for run in runs
            for key in run.data.metrics
            for metric in self.client.get_metric_history(run.info.run_id, key)
        )

    @property
    def traces(self) -> dict[str, list[dict[str, Any]]]:
        """The spans of the parent's traces, by the traces' ids."""
        run = self.parent
        found = self.client.search_traces(locations=[run.info.experiment_id], run_id=run.info.run_id)
        return {trace.info.trace_id: [span.to_dict() for span in trace.data.spans] for trace in found}

    def prompt(self, part: str, alias: str) -> Any:
        return self.client.get_prompt_version_by_alias(f"mine-001.{part}", alias)

    def text(self, run: Run, name: str) -> str:
        return mlflow.artifacts.load_text(f"{run.info.artifact_uri}/{name}")


def told(view: View) -> Any:
    """Return all that a view says, but for ids and the run folder's place."""
    runs = [view.parent, *view.children, *view.tested.values()]
    infos = [(run.info.run_name, run.info.status, run.info.start_time, run.info.end_time) for run in runs]
    data = infos, [(run.data.params, run.data.metrics) for run in runs]
    notes = [{k: tag for k, tag in run.data.tags.items() if k != PARENT_TAG} for run in runs[1:]]
    curves = {key: [(m.step, m.value, m.timestamp) for m in view.history(key)] for key in view.parent.data.metrics}
    return data, notes, curves
