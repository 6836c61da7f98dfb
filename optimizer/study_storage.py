"""The database of a study: how it is opened, and what its errors mean."""

from __future__ import annotations

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy.exc import DBAPIError, OperationalError, PendingRollbackError

from ..policies.lm.postgres import CLIENT_SETTINGS

START_ANOTHER = "start another run in a new folder, or remove this one"


def database_of(storage: str, begun: bool | None) -> RDBStorage:
    """Open Optuna's tables: in a run's own file, or in a shared database, where ``begun`` tells if they are there.

    A connection to a shared database is tried before it is used.
    """
    if begun is None:
        return RDBStorage(storage)
    options = {"pool_pre_ping": True, "connect_args": CLIENT_SETTINGS}
    return RDBStorage(storage, engine_kwargs=options, skip_table_creation=begun)


def study_of(storage: BaseStorage, name: str, *, begun: bool) -> optuna.Study:
    """Return the study of a name; one that is there is only read. Raises KeyError where one that has begun is not."""
    try:
        return optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        if begun:
            raise
    return optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)


def remedy(reason: str) -> str:
    """Return what to do about a study's file that cannot be used, by what SQLite says of it."""
    if "locked" in reason:
        return "another program is using it: try again later"
    if "readonly" in reason or "unable to open" in reason:
        return "it cannot be written: see who may write it, or copy the run's folder to where you may"
    return START_ANOTHER


def is_lost(error: BaseException) -> bool:
    """Tell whether an error is a lost connection to a database server."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    if isinstance(cause, OperationalError):  # psycopg gives no state where no connection can be made
        return cause.connection_invalidated or getattr(cause.orig, "sqlstate", "") is None
    return isinstance(cause, PendingRollbackError)  # what comes after it in the same session


def reason_of(error: Exception) -> str:
    """Return what the database says, in one line."""
    cause = error.__cause__ if isinstance(error, StorageInternalError) else error
    return " ".join(str(cause.orig if isinstance(cause, DBAPIError) else error).split())
