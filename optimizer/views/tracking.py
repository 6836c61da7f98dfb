"""MLflow's view of a study, which can be rebuilt at any time: the parent run is the study, a child run a trial."""

from __future__ import annotations

import logging
import math
import os
import socket
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from filelock import FileLock

from ...data.sqlite_files import tables
from ...env.statistics import nan_mean
from ...policies.files import dump_policy
from ...policies.lm.secrets import HIDDEN, redacted
from ...policies.policy import MemoryPolicy
from ...policies.space import effective, every_knob
from ..config import Config, ConfigError
from ..search.listener import Listener
from ..search.outcome import Outcome
from ..search.screen import rank_correlation
from ..study import Trial
from .table import over_window

if TYPE_CHECKING:
    from mlflow import MlflowClient

STUDY_TAG, TRIAL_TAG, PARENT_TAG = "mnemotune.study", "mnemotune.trial", "mlflow.parentRunId"
NOTE_TAG = "mlflow.note.content"
LOCAL = "sqlite:///"
"""How the URI of a store in a file begins."""
FILES = ("config.yaml", "best_policy.yaml", "deployment.yaml", "report.html", "result.json")
"""Files of the run folder that the parent run keeps as artifacts."""


class Tracker(Listener):
    """Shows a run in MLflow; what MLflow holds already is not logged again.

    A run without tracking is not shown, and MLflow is not even imported.
    """

    def __init__(self, *, tell: Callable[[str], None]) -> None:
        """Open nothing yet.

        A failure of MLflow never ends a run that has begun: ``tell`` hears when the view falls behind.
        """
        self._tell = tell
        self._shown: set[int] = set()
        self._ended: int | None = None
        self._writes = False

    def check(self, config: Config) -> None:
        """Raise ConfigError when the store that the config names cannot be used."""
        uri = None if config.tracking is None else config.tracking.whole_uri
        if uri is not None:
            check_store(uri)

    def begin(self, outcome: Outcome) -> None:
        """Open the parent run, or find it again, and add the trials it lacks.

        Raises ConfigError when MLflow's store cannot be used.
        """
        tracking, uri = outcome.config.tracking, outcome.tracking_uri
        if tracking is None or uri is None:
            return
        self.outcome = outcome
        with _opened(uri) as self._client:
            self._experiment = _experiment_at(uri, tracking.experiment, self._client)
            self._parent = self._find_parent()
            for run in self._search(f"tags.`{PARENT_TAG}` = '{self._parent}'"):
                if TRIAL_TAG in run.data.tags:
                    self._shown.add(int(run.data.tags[TRIAL_TAG]))
                else:
                    self._client.delete_run(run.info.run_id)
            for trial in self.outcome.study.trials:
                self._add(trial)
        self._writes = True

    def trial(self, trial: Trial) -> None:
        """Add one trial's child run and the parent's curves, once."""
        self._write(lambda: self._add(trial))

    def finish(self) -> None:
        """Log the sealed test's figures and the run's files, and end the parent run as finished or stopped."""
        self._write(self._end)

    def abort(self) -> None:
        """Say that the run was stopped; it can go on."""
        self._write(lambda: self._client.set_terminated(self._parent, status="KILLED"))

    def _write(self, write: Callable[[], None]) -> None:
        if not self._writes:
            return
        try:
            with _quiet():
                write()
        except Exception as error:  # noqa: BLE001 - MLflow and its stores fail in many types
            self._writes = False
            again = f"`mnemotune report {self.outcome.folder}` brings it up to date"
            self._tell(
                f"MLflow's view is behind from here on ({type(error).__name__}: {redacted(str(error))}); {again}"
            )

    def _add(self, trial: Trial) -> None:
        if trial.number in self._shown:
            return
        label = "not valid" if trial.policy is None else trial.policy.label
        tags = {
            PARENT_TAG: self._parent,
            "decided_at": trial.decided_at,
            "accepted": str(trial.accepted).lower(),
            NOTE_TAG: f"**{trial.change}**\n\n{trial.reason}",
        }
        name = f"{trial.number:03d} {label}"
        child = self._client.create_run(self._experiment, tags=tags, run_name=name).info.run_id
        params = {"generation": trial.generation, "parent": "-" if trial.parent is None else trial.parent}
        params |= {} if trial.policy is None else policy_params(trial.policy)
        _log(self._client, child, metrics=_metrics(trial), params=params)
        if trial.policy is not None:
            self._client.log_text(child, dump_policy(trial.policy), "policy.yaml")
        self._client.set_terminated(child, status="FINISHED" if trial.decided_at != "check" else "FAILED")
        _log(self._client, self._parent, metrics=self._curves(trial), step=trial.number)
        self._client.set_tag(child, TRIAL_TAG, str(trial.number))  # last: a child without it was not finished
        self._shown.add(trial.number)

    def _end(self) -> None:
        scores, over = dict[str, float](), over_window(self.outcome.test.rows)
        for name, row in self.outcome.test.rows.items():
            scores |= {f"test/{name}/memory_score": row.memory_score.mean, f"test/{name}/accuracy": row.accuracy}
            scores |= {f"test/{name}/{share}": value for share, value in row.shares.items()}
            scores[f"test/{name}/evidence_recall"] = row.evidence.mean
            scores |= {f"test/{name}/by_reader/{reader}": score.mean for reader, score in row.by_reader.items()}
            scores |= {f"test/{name}/reworded": row.reworded.mean, f"test/{name}/over_window": over[name].mean}
        gain = self.outcome.test.difference
        scores |= {"test/gain": gain.mean, "test/gain_low": gain.low, "test/gain_high": gain.high}
        known = self._client.get_run(self._parent).data.metrics
        new = {name: score for name, score in scores.items() if known.get(name) != score}
        _log(self._client, self._parent, metrics=new)
        for file in FILES:
            if (self.outcome.folder / file).is_file():
                self._client.log_artifact(self._parent, str(self.outcome.folder / file))
        status = "FINISHED" if self.outcome.test.done else "KILLED"
        self._client.set_terminated(self._parent, status=status, end_time=self._ended)

    def _find_parent(self) -> str:
        study = self.outcome.study.identity
        known = self._search(f"tags.`{STUDY_TAG}` = '{study}'")
        if known:
            info = known[0].info
            self._ended = info.end_time if self.outcome.test.done else None
            self._client.update_run(info.run_id, status="RUNNING")
            return str(info.run_id)
        config = self.outcome.config
        tags = {STUDY_TAG: study, NOTE_TAG: f"Evolution of a memory policy in `{self.outcome.folder}`"}
        run = self._client.create_run(self._experiment, tags=tags, run_name=self.outcome.folder.name)
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
        _log(self._client, run_id, params=params)
        return run_id

    def _search(self, query: str) -> list[Any]:
        return list(self._client.search_runs([self._experiment], filter_string=query, max_results=5000))

    def _curves(self, trial: Trial) -> dict[str, float]:
        trials = self.outcome.study.trials[: trial.number + 1]
        best = next(t for t in reversed(trials) if t.accepted)
        return {
            "best/validation_score": nan_mean(list(best.validation.values())),
            "best/train_score": best.score,
            "trial/train_score": trial.score if trial.finished_race else math.nan,
            "spent/calls": sum(t.ledger.total.calls for t in trials),
            "screen/rank_correlation": rank_correlation(trials),
        }


@contextmanager
def logged_run(
    uri: str, *, experiment: str, name: str, params: Mapping[str, Any]
) -> Iterator[Callable[[Mapping[str, float], int], None]]:
    """Open a run in MLflow and yield a function that logs figures at a step; the run fails if the block does.

    Figures that are NaN are left out. Raises ConfigError when the store cannot be used.
    """
    with _quiet():
        with _opened(uri) as client:
            run = client.create_run(_experiment_at(uri, experiment, client), run_name=name).info.run_id
            _log(client, run, params=params)
        try:
            yield lambda figures, step: _log(client, run, metrics=figures, step=step)
        except BaseException:
            client.set_terminated(run, status="FAILED")
            raise
        client.set_terminated(run, status="FINISHED")


def _log(
    client: MlflowClient,
    run_id: str,
    *,
    metrics: Mapping[str, float | None] = MappingProxyType({}),
    params: Mapping[str, Any] = MappingProxyType({}),
    step: int = 0,
) -> None:
    """Log figures, but for those that are not known, and parameters."""
    from mlflow.entities import Metric, Param

    known = {name: value for name, value in metrics.items() if value is not None and not math.isnan(value)}
    now = int(time.time() * 1000)
    client.log_batch(
        run_id,
        metrics=[Metric(name, value, now, step) for name, value in known.items()],
        params=[Param(name, str(value)[:500]) for name, value in params.items()],
    )


def _experiment_at(uri: str, name: str, client: MlflowClient) -> str:
    """Return an experiment's id, and make it where it is missing; a local store keeps artifacts beside its file."""
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    database = uri.removeprefix(LOCAL)
    place = (Path(database).resolve().parent / "mlartifacts").as_uri() if database != uri else None
    return str(client.create_experiment(name, artifact_location=place))


@contextmanager
def _opened(uri: str) -> Iterator[MlflowClient]:
    """Yield a client of a store, and keep MLflow quiet. Raises ConfigError when the store cannot be used.

    Other runs wait: two that make the same new database, or the same experiment, break each other.
    """
    if HIDDEN in uri:
        raise ConfigError(f"tracking.uri: the password of {uri} is not written down: set MLFLOW_TRACKING_URI")
    database = Path(uri.removeprefix(LOCAL))
    local = uri.startswith(LOCAL)
    if local:
        _check_file(database)
    try:
        with _quiet(), FileLock(database.with_name(f".{database.name}.lock")) if local else nullcontext():
            from mlflow import MlflowClient  # imported late: a second that most commands do not need

            # MLflow's own patience with a server that does not answer is minutes.
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
            _check_database(uri)
            yield MlflowClient(tracking_uri=uri)
    except Exception as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(redacted(f"tracking.uri: MLflow cannot use {uri}: {first_line}")) from error


def check_store(uri: str) -> None:
    """Raise ConfigError when a store cannot be used; a file of SQLite is only looked at."""
    if uri.startswith(LOCAL):
        _check_file(Path(uri.removeprefix(LOCAL)))
        return
    with _opened(uri) as client:
        client.search_experiments(max_results=1)


def _check_file(database: Path) -> None:
    """Raise ConfigError when a file is no database of MLflow's: MLflow would add its tables to any other."""
    try:
        known = tables(database) if database.exists() else set()
    except sqlite3.DatabaseError as error:
        raise ConfigError(f"tracking.uri: MLflow cannot use {database}: {error}") from None
    if known and "experiments" not in known:
        raise ConfigError(f"tracking.uri: {database} is another program's database; name another file")


def _check_database(uri: str) -> None:
    """Raise what a database has against being used; MLflow itself would try again for more than a minute."""
    from mlflow.store.db.db_types import DATABASE_ENGINES
    from sqlalchemy import create_engine, inspect

    if uri.partition(":")[0].partition("+")[0] in DATABASE_ENGINES:
        engine = create_engine(uri)
        try:
            inspect(engine).get_table_names()
        finally:
            engine.dispose()


def _stay_local() -> None:
    """Keep MLflow from asking the internet for anything, which hangs without a network, and from printing addresses."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def check_port(host: str, port: int) -> None:
    """Raise ConfigError when nothing can listen there: another server's pages would be taken for ours."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ConfigError(f"--port: {host}:{port} cannot be used ({error.strerror}); name another") from None


def serve(uri: str, *, host: str, port: int, opens: bool) -> NoReturn:
    """Become MLflow's server, so that what ends this process ends it too.

    Another process says where the newest study's charts are as soon as the server answers, and ``opens`` them.
    """
    _stay_local()
    script = str(Path(__file__).with_name("pages.py"))
    place = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    subprocess.Popen([sys.executable, script, f"http://{place}:{port}", str(os.getpid()), *["open"] * opens])  # noqa: S603
    # by the environment: anyone on this machine can read a command line, and the URI may have a password
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "MLFLOW_BACKEND_STORE_URI": uri}
    # nothing here needs MLflow's job workers, which would outlive it
    environment.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    command = [sys.executable, "-m", "mlflow", "server", "--host", host]
    command += ["--port", str(port), "--workers", "1", "--uvicorn-opts", "--log-level warning"]
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own command line


def _metrics(trial: Trial) -> dict[str, float | None]:
    total, summary = trial.ledger.total, trial.summary
    scores = {} if summary is None else {"accuracy": summary.accuracy, "ceiling": summary.ceiling}
    shares = {} if summary is None else summary.shares
    return {
        "train_score": trial.score if trial.finished_race else None,
        "validation_score": nan_mean(list(trial.validation.values())),
        **scores,
        **{f"share/{name}": value for name, value in shares.items()},
        "forecast": trial.forecast,
        "users_raced": len(trial.series),
        "calls": total.calls,
        "tokens": total.input_tokens + total.output_tokens,
        "cost_usd": total.cost_usd,
    }


def policy_params(policy: MemoryPolicy) -> dict[str, Any]:
    """Return a policy's numbers and structure by path, and its key; what it does not use is left out."""
    values = policy.values
    point = effective(values, every_knob())
    knobs = [knob for knob in every_knob() if not knob.slot and (knob.name in point or not knob.named)]
    params = {knob.path: values.get(knob.path, knob.default) for knob in knobs}
    return {path: value for path, value in params.items() if value is not None} | {"key": policy.key}


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the notices of MLflow and of its database migrations off the user's screen."""
    _stay_local()
    import mlflow  # noqa: F401 - sets its loggers' levels when it is first imported

    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
