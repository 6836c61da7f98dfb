"""MLflow's view of a study: the parent run is the study, a child run a trial or a policy of the sealed test."""

from __future__ import annotations

import math
import posixpath
import re
import shlex
from collections.abc import Callable
from datetime import datetime
from hashlib import md5
from typing import Any

from ....env.statistics import estimate
from ....policies.files import dump_policy
from ....policies.lm.secrets import redacted
from ...config import Config, ConfigError
from ...search.listener import Listener, Standing
from ...search.outcome import FILES, Outcome
from ...search.screen import rank_correlation
from ...study import Trial
from ..table import over_window
from .figures import (
    known,
    rounded,
    tested_metrics,
    trial_metrics,
    trial_name,
    trial_params,
    trial_tags,
    with_interval,
)
from .registered import Registry, datasets
from .store import STUDY_TAG, check_store, experiment_at, log, opened, quiet, remove_files
from .trace_log import TraceLog
from .traces import failed_traces

NO_KEY = re.compile(r"[^A-Za-z0-9_.\- /]+")
"""What MLflow takes in no name of a figure."""
TRIAL_TAG, PARENT_TAG = "mnemotune.trial", "mlflow.parentRunId"
TESTED_TAG = "mnemotune.tested"
"""Names the policy of the sealed test that a child run shows."""
NOTE_TAG = "mlflow.note.content"
"""Files of the run folder that the parent run keeps as artifacts."""


class Tracker(Listener):
    """Shows a run in MLflow; what MLflow holds already is not logged again.

    Runs, their moments, prompts and datasets are made from the study, traces and files from the run's folder. A run
    without tracking is not shown, and MLflow is not even imported.
    """

    def __init__(self, *, tell: Callable[[str], None], rebuild: bool = False) -> None:
        """Open nothing yet; ``rebuild`` throws away what MLflow holds of the study when the run begins.

        A failure of MLflow never ends a run that has begun: ``tell`` hears when the view falls behind.
        """
        self._tell, self._rebuild = tell, rebuild
        self._shown: set[int] = set()
        self._tested: set[str] = set()
        self._waits = self._writes = False

    def check(self, config: Config) -> None:
        """Raise ConfigError when the store that the config names cannot be used."""
        uri = None if config.tracking is None else config.tracking.whole_uri
        if uri is not None:
            check_store(uri)

    def begin(self, outcome: Outcome) -> None:
        """Open the parent run, or find it again, and add the trials it lacks.

        A new study has nothing to show: MLflow, whose start takes seconds, waits for its first calls. Raises
        ConfigError when the store of another cannot be used.
        """
        if outcome.config.tracking is None:
            return
        self.outcome = outcome
        if outcome.study.trials:
            self._open()
        else:
            self._waits = True

    def stand(self, standing: Standing) -> None:
        """Open the parent run of a new study once its first calls are made."""
        if standing.budget.calls:
            self._open_late()

    def _open_late(self) -> None:
        if not self._waits:
            return
        self._waits = False
        try:
            self._open()
        except ConfigError as error:
            again = f"`mnemotune report {shlex.quote(str(self.outcome.folder))}` shows the run once that is mended"
            self._tell(f"MLflow shows nothing of this run: {error}; {again}")

    def _open(self) -> None:
        tracking, uri = self.outcome.config.tracking, self.outcome.tracking_uri
        if tracking is None or uri is None:
            return
        with opened(uri) as self._client:
            self._experiment = experiment_at(uri, tracking.experiment, self._client)
            study = self.outcome.study.identity
            self._registry = Registry(self._client, self._experiment, study=study)
            self._traces = TraceLog(uri, self._experiment, study)
            if self._rebuild:
                self._throw_away()
            self._parent = self._find_parent()
            for run in self._children(self._parent):
                if TRIAL_TAG in run.data.tags:
                    self._shown.add(int(run.data.tags[TRIAL_TAG]))
                elif TESTED_TAG in run.data.tags:
                    self._tested.add(run.data.tags[TESTED_TAG])
                else:
                    self._client.delete_run(run.info.run_id)
            for trial in self.outcome.study.trials:
                self._add(trial)
        self._writes = True

    def trial(self, trial: Trial) -> None:
        """Add one trial's child run and the parent's curves, once."""
        self._open_late()
        self._write(lambda: self._add(trial))

    def finish(self) -> None:
        """Log the sealed test's figures and the run's files, and end the parent run as finished or stopped."""
        self._open_late()
        self._write(self._end)

    def abort(self) -> None:
        """Say that the run was stopped; it can go on."""
        self._write(lambda: self._terminate(self._parent, "KILLED", self.outcome.stopped))

    def _write(self, write: Callable[[], None]) -> None:
        if not self._writes:
            return
        try:
            with quiet():
                write()
        except Exception as error:  # noqa: BLE001 - MLflow and its stores fail in many types
            self._writes = False
            again = f"`mnemotune report {shlex.quote(str(self.outcome.folder))}` brings it up to date"
            self._tell(
                f"MLflow's view is behind from here on ({type(error).__name__}: {redacted(str(error))}); {again}"
            )

    def _add(self, trial: Trial) -> None:
        if trial.number in self._shown:
            return
        child = self._child(trial_name(trial), trial.began or trial.ended, trial_tags(trial) | {NOTE_TAG: _note(trial)})
        log(self._client, child, metrics=trial_metrics(trial), params=trial_params(trial), at=trial.ended)
        if trial.policy is not None:
            self._client.log_text(child, dump_policy(trial.policy), "policy.yaml")
        self._terminate(child, "FINISHED" if trial.policy is not None else "FAILED", trial.ended)
        log(self._client, self._parent, metrics=known(self._curves(trial)), step=trial.number, at=trial.ended)
        if trial.number == 0:
            self._client.log_inputs(self._parent, datasets(self.outcome))
        self._client.set_tag(child, TRIAL_TAG, str(trial.number))  # last: a child without it was not finished
        self._shown.add(trial.number)

    def _end(self) -> None:
        ended = self.outcome.stopped
        self._client.log_inputs(self._parent, datasets(self.outcome))
        if self.outcome.test.done:  # until then a score may change, and what is logged stays
            self._add_tested()
            self._add_traces()
        for file in FILES:
            if (self.outcome.folder / file).is_file():
                self._client.log_artifact(self._parent, str(self.outcome.folder / file))
        if self.outcome.study.trials:
            self._registry.show(self.outcome, self._parent)
        self._terminate(self._parent, "FINISHED" if self.outcome.test.done else "KILLED", ended)

    def _add_tested(self) -> None:
        test, ended = self.outcome.test, self.outcome.stopped
        over, scores = over_window(test.rows), with_interval("test/gain", test.difference)
        for name, row in test.rows.items():
            figures = tested_metrics(row, over[name])
            scores |= {f"test/{_in_a_key(name)}/{figure}": value for figure, value in figures.items()}
            if name not in self._tested:
                child = self._child(f"test {name}", ended, {"verdict": "tested"})
                log(self._client, child, metrics=figures, params={"policy": name}, at=ended)
                self._terminate(child, "FINISHED", ended)
                self._client.set_tag(child, TESTED_TAG, name)
                self._tested.add(name)
        before = self._client.get_run(self._parent).data.metrics
        new = {name: score for name, score in known(scores).items() if before.get(name) != score}
        log(self._client, self._parent, metrics=new, at=ended)

    def _add_traces(self) -> None:
        there = self._traces.known()
        for failed in failed_traces(self.outcome.folder):
            if self._traces.id_of(failed) not in there:
                self._traces.add(failed, run=self._parent, at=self.outcome.stopped)

    def _child(self, name: str, began: datetime | None, tags: dict[str, str]) -> str:
        tags = {PARENT_TAG: self._parent, **tags}
        run = self._client.create_run(self._experiment, start_time=_ms(began), tags=tags, run_name=name)
        return str(run.info.run_id)

    def _terminate(self, run: str, status: str, ended: datetime | None) -> None:
        self._client.set_terminated(run, status=status, end_time=_ms(ended))

    def _throw_away(self) -> None:
        self._registry.throw_away()
        self._traces.throw_away()
        for parent in self._parents():
            for run in (*self._children(parent.info.run_id), parent):
                remove_files(run, self._client)
                self._client.delete_run(run.info.run_id)

    def _find_parent(self) -> str:
        outcome = self.outcome
        parents = self._parents()
        if parents:
            run_id = str(parents[0].info.run_id)
            self._client.update_run(run_id, status="RUNNING")
            return run_id
        config = outcome.config
        tags = {STUDY_TAG: outcome.study.identity, NOTE_TAG: f"Evolution of a memory policy in `{outcome.folder}`"}
        run = self._client.create_run(
            self._experiment, start_time=_ms(outcome.began), tags=tags, run_name=outcome.folder.name
        )
        run_id = str(run.info.run_id)
        params = {
            "track": config.track,
            "data": config.data,
            **({} if config.test_data is None else {"test_data": config.test_data}),
            "model": config.model,
            "embedder": config.embedder,
            **{f"users.{split}": getattr(config.splits, split) for split in ("train", "validation", "test")},
            **{name: getattr(config.search, name) for name in ("seed", "generations", "candidates")},
        }
        log(self._client, run_id, params=params)
        return run_id

    def _parents(self) -> list[Any]:
        return self._search(f"tags.`{STUDY_TAG}` = '{self.outcome.study.identity}'")

    def _children(self, parent: str) -> list[Any]:
        return self._search(f"tags.`{PARENT_TAG}` = '{parent}'")

    def _search(self, query: str) -> list[Any]:
        return list(self._client.search_runs([self._experiment], filter_string=query, max_results=5000))

    def _curves(self, trial: Trial) -> dict[str, float]:
        trials = self.outcome.study.trials[: trial.number + 1]
        best = next(t for t in reversed(trials) if t.accepted)
        return {
            **with_interval("best/validation_score", estimate(list(best.validation.values()))),
            **with_interval("best/train_score", estimate(list(best.train.values()))),
            "trial/train_score": rounded(trial.score) if trial.finished_race else math.nan,
            "spent/calls": sum(t.ledger.total.calls for t in trials),
            "screen/rank_correlation": rounded(rank_correlation(trials)),
        }


def _note(trial: Trial) -> str:
    return f"**{trial.change}**\n\n{trial.reason}"


def _ms(moment: datetime | None) -> int | None:
    """Return a moment as MLflow has it."""
    return None if moment is None else round(moment.timestamp() * 1000)


def _in_a_key(name: str) -> str:
    """Return a policy's name as MLflow takes it within the name of a figure, which no other policy has."""
    fit = NO_KEY.sub("-", posixpath.normpath(name)).lstrip("./")
    return fit if fit == name else f"{fit}-{md5(name.encode(), usedforsecurity=False).hexdigest()[:6]}"
