"""A store of MLflow's: opened, checked and written to without a word on the screen, and without the internet."""

from __future__ import annotations

import logging
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from ....data.sqlite_files import tables
from ....policies.lm.secrets import HIDDEN, redacted
from ...config import ConfigError
from .figures import known

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

LOCAL = "sqlite:///"
"""How the URI of a store in a file begins."""
STUDY_TAG = "mnemotune.study"
"""Names the study that a run, a trace or a version of a prompt shows."""


@contextmanager
def logged_run(
    uri: str, *, experiment: str, name: str, params: Mapping[str, Any]
) -> Iterator[Callable[[Mapping[str, float], int], None]]:
    """Open a run in MLflow and yield a function that logs figures at a step; the run fails if the block does.

    Figures that are NaN are left out. Raises ConfigError when the store cannot be opened; what is logged in the block
    raises what MLflow does.
    """
    with quiet():
        with opened(uri) as client:
            run = client.create_run(experiment_at(uri, experiment, client), run_name=name).info.run_id
            log(client, run, params=params)
        try:
            yield lambda figures, step: log(client, run, metrics=known(figures), step=step)
        except BaseException:
            client.set_terminated(run, status="FAILED")
            raise
        client.set_terminated(run, status="FINISHED")


def log(
    client: MlflowClient,
    run_id: str,
    *,
    metrics: Mapping[str, float] = MappingProxyType({}),
    params: Mapping[str, Any] = MappingProxyType({}),
    step: int = 0,
    at: datetime | None = None,
) -> None:
    """Log figures and parameters; ``at`` is when the figures were known, now where it is None."""
    from mlflow.entities import Metric, Param

    known_at = round((datetime.now(UTC) if at is None else at).timestamp() * 1000)
    client.log_batch(
        run_id,
        metrics=[Metric(name, value, known_at, step) for name, value in metrics.items()],
        params=[Param(name, str(value)[:500]) for name, value in params.items()],
    )


def remove_files(run: Run, client: MlflowClient) -> None:
    """Remove the files that are logged under a run: MLflow leaves them where a run is deleted."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    get_artifact_repository(run.info.artifact_uri, tracking_uri=client.tracking_uri).delete_artifacts()


def experiment_at(uri: str, name: str, client: MlflowClient) -> str:
    """Return an experiment's id, and make it where it is missing; a local store keeps artifacts beside its file."""
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    database = uri.removeprefix(LOCAL)
    place = (Path(database).resolve().parent / "mlartifacts").as_uri() if database != uri else None
    return str(client.create_experiment(name, artifact_location=place))


@contextmanager
def opened(uri: str) -> Iterator[MlflowClient]:
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
        with quiet(), FileLock(database.with_name(f".{database.name}.lock")) if local else nullcontext():
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
    with opened(uri) as client:
        client.search_experiments(max_results=1)


def _check_file(database: Path) -> None:
    """Raise ConfigError when a file is no database of MLflow's, or none can be made there.

    MLflow would add its tables to any other.
    """
    folder = next(folder for folder in database.absolute().parents if folder.exists())
    if not database.exists() and not (folder.is_dir() and os.access(folder, os.W_OK)):
        why = f"{folder} is no folder that can be written to"
        raise ConfigError(f"tracking.uri: MLflow cannot use {LOCAL}{database}: {why}")
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


def stay_local() -> None:
    """Keep MLflow from asking the internet for anything, which hangs without a network, and from printing addresses."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the notices of MLflow and of its database migrations off the user's screen."""
    stay_local()
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
