"""Where a run is: that one process alone is at work on it, and that its database is its own."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from ...policies.lm.postgres import Lock, Postgres, Taken
from ..config import Config, ConfigError
from ..stores import Storage
from ..study import StudyError
from ..study_storage import START_ANOTHER, remedy

A_LOOK_SECONDS = 1.0
"""For which a run's start waits for its lock: who looks whether a process is at work takes it for a moment."""
_LOOKED_AT = Retrying(
    retry=retry_if_exception_type(Taken), stop=stop_after_delay(A_LOOK_SECONDS), wait=wait_fixed(0.1), reraise=True
)
TABLES = ("trials", "trial_params", "trial_user_attributes", "trial_values", "study_user_attributes", "version_info")
"""Tables that are in every study: Optuna would make missing ones anew, and forget what was in them."""


def with_study_named(config: Config, folder: str) -> Config:
    """Return a config whose study has a name of its own in a database that other runs use too.

    It has the database's login, which workers on other machines may not know.
    """
    if config.storage is None:
        return config
    name = config.storage.study or f"{folder}-{uuid4().hex[:8]}"
    return config.model_copy(update={"storage": Storage(url=config.storage.whole_url, study=name)})


def _remove_new(folder: Path, before: Set[Path], *, was_there: bool) -> None:
    for path in set(folder.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not was_there:
        folder.rmdir()


@contextmanager
def alone_in(folder: Path, storage: Storage | None) -> Iterator[tuple[Lock | None, Callable[[], object]]]:
    """Keep other processes out of a run, also those of other machines where a database has the study.

    Yields the database's lock, and what is to be called once the run has begun: else what was made in the folder is
    removed. Raises ConfigError when another process is in the run, and DatabaseError.
    """
    was_there, had_lock = folder.is_dir(), (folder / ".lock").is_file()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        lock = None
        try:
            stack.enter_context(FileLock(folder / ".lock", timeout=A_LOOK_SECONDS))
            undo = stack.enter_context(ExitStack())
            before = {path for path in folder.iterdir() if had_lock or path.name != ".lock"}
            undo.callback(_remove_new, folder, before, was_there=was_there)
            if storage is not None:
                lock = stack.enter_context(closing(_LOOKED_AT(Lock, storage.whole_url, lock_name(storage))))
        except (Timeout, Taken):
            raise ConfigError(f"{folder}: another process is at work on this run") from None
        yield lock, undo.pop_all


def is_at_work(folder: Path, storage: Storage | None) -> bool:
    """Tell whether a process is at work on the run in a folder, on any machine where a database has the study."""
    return _is_locked(folder / ".lock") or (storage is not None and _is_taken(storage))


def _is_locked(lock: Path) -> bool:
    if not lock.is_file():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # nothing can be written there
        return False


def _is_taken(storage: Storage) -> bool:
    try:
        with closing(Lock(storage.whole_url, lock_name(storage))):
            return False
    except Taken:
        return True


def lock_name(storage: Storage) -> str:
    """Return what the lock of a study is called in its database."""
    return f"mnemotune {storage.study}"


def check_database(file: Path, *, name: str) -> None:
    """Raise StudyError when a SQLite file does not hold the study of this name; nothing is added to it."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)) as database:
            stored = [row[0] for row in database.execute("SELECT study_name FROM studies")]
            for table in TABLES:
                database.execute(f"SELECT * FROM {table} LIMIT 1")  # noqa: S608 - our own names
    except sqlite3.DatabaseError as error:
        what = "holds no study" if remedy(str(error)) == START_ANOTHER else "cannot be used"
        raise StudyError(f"{file.name} {what} ({error}); {remedy(str(error))}") from None
    if name not in stored:
        raise StudyError(f"{file.name} holds no study named {name!r}; {START_ANOTHER}")


def check_tables(database: Postgres) -> None:
    """Raise StudyError when a PostgreSQL database belongs to a program whose tables would mix with a study's."""
    foreign = "SELECT to_regclass('alembic_version') IS NOT NULL AND to_regclass('studies') IS NULL"
    if database.execute(foreign) == [(True,)]:
        raise StudyError(
            f"{database.name} holds another program's tables, perhaps MLflow's: name a database of its own"
        )
