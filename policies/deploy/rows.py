"""The SQLite file of a store: what each user's memory is, what waits to be written, and vectors that were paid for."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tenacity import retry, retry_if_exception_message, stop_after_delay, wait_random

from ...data.errors import MnemotuneError
from ..lm.cache import sqlite_explained

LAYOUT = 1
"""Version of the tables, in ``user_version``."""
APPLICATION = 0x6D6E656D
"""``mnem``, in ``application_id``: tells a store from other databases."""
BUSY_SECONDS = 60.0
"""Longest wait for another process that is writing."""
VERSION_BITS = 62
TABLES = (
    "CREATE TABLE IF NOT EXISTS memories (user TEXT PRIMARY KEY, version INTEGER NOT NULL, memory TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS waiting (id INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT NOT NULL, said TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS waiting_of ON waiting (user, id)",
    "CREATE TABLE IF NOT EXISTS vectors (user TEXT NOT NULL, embedder TEXT NOT NULL, text BLOB NOT NULL,"
    " vector BLOB NOT NULL, PRIMARY KEY (user, embedder, text)) WITHOUT ROWID",
)


class StoreError(MnemotuneError, RuntimeError):
    """The store cannot be used; the message says why and what to do."""


class Saved(NamedTuple):
    """A user's memory in the file."""

    version: int
    """Another number after every change."""
    memory: str
    """JSON, as ``dump_memory`` writes it; empty as long as nothing came of the first write of a new user."""


class Waiting(NamedTuple):
    """Messages that were taken in and not observed yet."""

    id: int
    said: str
    """A JSON list of messages."""


class Rows:
    """The tables. Threads may share it, and processes the file, on a local disk.

    What a method has changed is in the file when it returns, and a killed process leaves no half of it.
    """

    def __init__(self, path: Path | str) -> None:
        """Open or create the file. Raises StoreError when it is damaged, no store, or not writable."""
        self.path = Path(path)
        self._lock = threading.Lock()
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def users(self) -> list[str]:
        """Return who has a memory, or messages that wait."""
        with self._reading() as database:
            rows = database.execute(
                "SELECT user FROM memories WHERE memory <> '' UNION SELECT user FROM waiting ORDER BY user"
            )
            return [user for (user,) in rows]

    def users_waiting(self) -> list[str]:
        """Return of whom messages wait."""
        with self._reading() as database:
            return [user for (user,) in database.execute("SELECT DISTINCT user FROM waiting ORDER BY user")]

    def version(self, user: str) -> int | None:
        """Return the version of a user's memory; None where there is none."""
        with self._reading() as database:
            row = database.execute("SELECT version FROM memories WHERE user = ?", (user,)).fetchone()
        return None if row is None else row[0]

    def saved(self, user: str) -> Saved | None:
        """Return a user's memory; None where there is none."""
        with self._reading() as database:
            row = database.execute("SELECT version, memory FROM memories WHERE user = ?", (user,)).fetchone()
        return None if row is None else Saved(*row)

    def waiting(self, user: str) -> list[Waiting]:
        """Return what waits, oldest first."""
        with self._reading() as database:
            rows = database.execute("SELECT id, said FROM waiting WHERE user = ? ORDER BY id", (user,))
            return [Waiting(*row) for row in rows]

    def add_waiting(self, user: str, said: str) -> None:
        """Put messages behind those that wait."""
        with self._writing() as database:
            database.execute("INSERT INTO waiting (user, said) VALUES (?, ?)", (user, said))

    def drop_waiting(self, user: str, row: Waiting) -> bool:
        """Take back what waits; tell whether it was still there as it was."""
        with self._writing() as database:
            done = database.execute("DELETE FROM waiting WHERE user = ? AND id = ? AND said = ?", (user, *row))
            return done.rowcount == 1

    def save(
        self,
        user: str,
        memory: str,
        *,
        instead_of: int | None,
        observed: Waiting | None = None,
        rewritten: Mapping[int, str | None] | None = None,
    ) -> int | None:
        """Save a memory in place of version ``instead_of``, or as a user's first; return its version.

        Nothing changes, and None is returned, when the present version is another, or when what was ``observed``
        waits no longer as it was. Of what waits, ``rewritten`` has new texts, and None for what goes.
        """
        version = secrets.randbits(VERSION_BITS)
        with suppress(_Outdated), self._writing() as database:
            if instead_of is None:
                text = "INSERT OR IGNORE INTO memories (version, memory, user) VALUES (?, ?, ?)"
                done = database.execute(text, (version, memory, user))
            else:
                text = "UPDATE memories SET version = ?, memory = ? WHERE user = ? AND version = ?"
                done = database.execute(text, (version, memory, user, instead_of))
            if done.rowcount != 1:
                raise _Outdated
            if observed is not None:
                done = database.execute("DELETE FROM waiting WHERE id = ? AND said = ?", observed)
                if done.rowcount != 1:
                    raise _Outdated
            for row, said in (rewritten or {}).items():
                if said is None:
                    done = database.execute("DELETE FROM waiting WHERE id = ?", (row,))
                else:
                    done = database.execute("UPDATE waiting SET said = ? WHERE id = ?", (said, row))
                if done.rowcount != 1:
                    raise _Outdated
            return version
        return None

    def begin(self, user: str) -> None:
        """Note that a new user's memory is being written; where there is one already, nothing changes."""
        with self._writing() as database:
            text = "INSERT OR IGNORE INTO memories (version, memory, user) VALUES (?, '', ?)"
            database.execute(text, (secrets.randbits(VERSION_BITS), user))

    def delete(self, user: str) -> bool:
        """Remove all of a user; tell whether there was anything."""
        with self._writing() as database:
            tables = ("memories", "waiting", "vectors")
            counts = [
                database.execute(f"DELETE FROM {table} WHERE user = ?", (user,)).rowcount  # noqa: S608 - our own text
                for table in tables
            ]
        return any(counts)

    def scrub(self) -> None:
        """Leave nothing of what was deleted in the files: its pages are zeros already, and the log is emptied.

        Raises StoreError where somebody has been reading the log for BUSY_SECONDS.
        """
        with self._reading() as database:
            (busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            what = f"what was deleted from {self.path} is still in the log beside it, which another program reads"
            raise StoreError(f"{what}; forget or delete again once it has ended")

    def vectors(self, user: str, embedder: str) -> dict[bytes, bytes]:
        """Return the vectors that are kept of a user's texts, by the texts' digests."""
        with self._reading() as database:
            text = "SELECT text, vector FROM vectors WHERE user = ? AND embedder = ?"
            return dict(database.execute(text, (user, embedder)).fetchall())

    def keep_vectors(
        self, user: str, embedder: str, new: Mapping[bytes, bytes], gone: Sequence[bytes], *, version: int
    ) -> bool:
        """Keep new vectors and drop others, unless the user's memory is another by now; tell whether it was done."""
        with self._writing() as database:
            row = database.execute("SELECT version FROM memories WHERE user = ?", (user,)).fetchone()
            if row != (version,):
                return False
            add = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)"
            database.executemany(add, [(user, embedder, text, vector) for text, vector in new.items()])
            drop = "DELETE FROM vectors WHERE user = ? AND embedder = ? AND text = ?"
            database.executemany(drop, [(user, embedder, text) for text in gone])
        return True

    def drop_vectors(self, user: str, kept: Collection[bytes]) -> None:
        """Drop the vectors of all texts of a user but these, by whichever embedder."""
        with self._writing() as database:
            rows = database.execute("SELECT DISTINCT text FROM vectors WHERE user = ?", (user,)).fetchall()
            gone = [(user, text) for (text,) in rows if text not in kept]
            database.executemany("DELETE FROM vectors WHERE user = ? AND text = ?", gone)

    def close(self) -> None:
        """Release the file. Closing twice does no harm."""
        with self._lock:
            self._connection.close()

    @retry(
        retry=retry_if_exception_message(match="database is locked"),
        stop=stop_after_delay(BUSY_SECONDS),
        wait=wait_random(0.0, 0.05),
        reraise=True,
    )
    def _prepare(self) -> None:
        run = self._connection.execute
        tables = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        ((application,),), ((layout,),) = run("PRAGMA application_id").fetchall(), run("PRAGMA user_version").fetchall()
        if tables and application != APPLICATION:
            raise StoreError(f"{self.path} is another program's database: name another file")
        if layout > LAYOUT:
            what = f"{self.path} is a later version's store ({layout}; here it is {LAYOUT})"
            raise StoreError(f"{what}: a newer mnemotune may read it")
        # SQLite does not wait by itself when two processes make the same new file a WAL file, hence the retries.
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA secure_delete = ON")
        if application != APPLICATION or layout != LAYOUT:
            with self._transaction() as database:
                for table in TABLES:
                    database.execute(table)
                database.execute(f"PRAGMA application_id = {APPLICATION}")
                database.execute(f"PRAGMA user_version = {LAYOUT}")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading(), self._transaction() as database:
            yield database

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            if self._connection.in_transaction:  # a full disk has ended it already
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _explained(self) -> Any:
        return sqlite_explained(f"the store {self.path}", StoreError, if_damaged="the file is damaged or no store")


class _Outdated(Exception):  # noqa: N818 - what happened
    """Somebody else has changed the memory."""
