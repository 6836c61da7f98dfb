"""Answers already paid for, kept so that a resumed run pays for nothing twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from tenacity import retry, retry_if_exception_message, stop_after_delay, wait_random

from ...data.errors import MnemotuneError
from .base import Completion, ToolCall
from .ledger import Usage
from .postgres import DatabaseError, DatabaseSilent, Postgres

BUSY_SECONDS = 60.0
"""Longest wait for another process that is writing."""

COLUMNS = ["key", "text", "input_tokens", "output_tokens", "cut"]
WITH_CALLS = 2
"""Added to the column ``cut`` where the text is JSON: of the reply's text, and of its tool calls."""
EARLIER = "responses"
"""The table of earlier versions' caches; it is left as it is."""
MOVE_AWAY = "move it away, and its answers will be asked for again"


class CacheError(MnemotuneError, RuntimeError):
    """The cache cannot be used; the message says why and what to do."""


def cache_key(endpoint: str, repeat: int, body: Iterable[bytes]) -> str:
    """Return the SHA-256 of everything that an answer depends on; ``body`` comes in pieces."""
    digest = hashlib.sha256(b"%s %d " % (endpoint.encode(), repeat))
    for piece in body:
        digest.update(piece)
    return digest.hexdigest()


class Cache(Protocol):
    """Completions by key. Its methods raise CacheError in one line; ``conformance`` has the tests that it passes."""

    def get(self, key: str) -> Completion | None:
        """Return the answer kept under ``key``, with its original token counts and at no cost, or None."""

    def put(self, key: str, completion: Completion) -> None:
        """Keep an answer. An earlier one under the same key stays, so that everybody reads the same."""

    def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each answer of whose text, or arguments of a tool call, ``what`` is true; return how many."""

    def close(self) -> None:
        """Release what it holds. Closing twice does no harm."""


class ResponseCache:
    """A cache in one SQLite file. Several processes may share it, on a local disk; threads may share one instance."""

    def __init__(self, path: Path | str) -> None:
        """Open or create the file. Raises CacheError when it is damaged, not a cache, or not writable."""
        self.path = Path(path)
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._prepare()
        except CacheError:
            self._connection.close()
            raise

    def get(self, key: str) -> Completion | None:
        """Return the answer kept under ``key``, or None."""
        with self._explained():
            row = self._connection.execute(
                "SELECT text, input_tokens, output_tokens, cut FROM replies WHERE key = ?", (key,)
            ).fetchone()
        if row is None:
            return None
        return _known(*row)

    def put(self, key: str, completion: Completion) -> None:
        """Keep an answer, unless there is one."""
        usage, (text, state) = completion.usage, _kept(completion)
        with self._explained():
            self._connection.execute(
                "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?)",
                (key, text, usage.input_tokens, usage.output_tokens, state),
            )

    def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each answer of which ``what`` is true, for good; return how many.

        Raises CacheError where another program has been reading the file for BUSY_SECONDS.
        """
        with self._explained():
            rows = self._connection.execute("SELECT key, text, cut FROM replies")
            gone = [(key,) for key, text, state in rows if _says(what, text, state)]
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.executemany("DELETE FROM replies WHERE key = ?", gone)
            (busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            still = f"what was removed from {self.path} is still in the log beside it, which another program reads"
            raise CacheError(f"{still}; forget again once it has ended")
        return len(gone)

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    @retry(
        retry=retry_if_exception_message(match="database is locked"),
        stop=stop_after_delay(BUSY_SECONDS),
        wait=wait_random(0.0, 0.05),
        reraise=True,
    )
    def _prepare(self) -> None:
        known = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        columns = [row[1] for row in self._connection.execute("PRAGMA table_info(replies)")]
        if (known and not known & {"replies", EARLIER}) or columns not in ([], COLUMNS):
            raise CacheError(f"{self.path} is another program's database, or a later version's cache: {MOVE_AWAY}")
        # SQLite does not wait by itself when two processes make the same new file a WAL file, hence the retries.
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text TEXT NOT NULL,"
            " input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cut INTEGER NOT NULL) WITHOUT ROWID"
        )

    def _explained(self) -> AbstractContextManager[None]:
        advice = f"the file is damaged or no cache: {MOVE_AWAY}"
        return sqlite_explained(f"the response cache {self.path}", CacheError, if_damaged=advice)


@contextmanager
def sqlite_explained(what: str, kind: type[MnemotuneError], *, if_damaged: str) -> Iterator[None]:
    """Turn what SQLite and the file system say of a file into an error of this kind, which says what to do."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        advice = "check that its folder is writable, has room, and that no other program locks it"
        raise kind(f"cannot use {what}: {error}; {advice}") from error
    except sqlite3.ProgrammingError:
        raise  # a mistake of the caller, such as reading after close; the file is fine
    except sqlite3.DatabaseError as error:
        raise kind(f"cannot read {what}: {error}; {if_damaged}") from error


class SharedCache:
    """A cache in a PostgreSQL database, which processes on many machines may share."""

    def __init__(self, url: str, name: str) -> None:
        """Open the cache called ``name``, or create it. Others in the same database are apart from it.

        A database that is lost later is waited for; after a minute, DatabaseSilent is raised.
        """
        self._name = name
        with _as_cache_error():
            self._database = Postgres(url)
        try:
            with _as_cache_error(), self._database.making():
                self._database.execute(
                    "CREATE TABLE IF NOT EXISTS mnemotune_replies (cache TEXT, key TEXT, text BYTEA NOT NULL,"
                    " input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, cut INTEGER NOT NULL,"
                    " PRIMARY KEY (cache, key))"
                )
        except CacheError:
            self._database.close()
            raise

    def get(self, key: str) -> Completion | None:
        """Return the answer kept under ``key``, or None."""
        query = "SELECT text, input_tokens, output_tokens, cut FROM mnemotune_replies WHERE cache = %s AND key = %s"
        with _as_cache_error():
            rows = self._database.execute(query, (self._name, key))
        return _known(rows[0][0].decode(), *rows[0][1:]) if rows else None

    def put(self, key: str, completion: Completion) -> None:
        """Keep an answer, unless there is one."""
        usage, (text, state) = completion.usage, _kept(completion)
        with _as_cache_error():
            self._database.execute(
                "INSERT INTO mnemotune_replies VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                # bytes: a text of PostgreSQL's cannot hold a NUL
                (self._name, key, text.encode(), usage.input_tokens, usage.output_tokens, state),
            )

    def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each answer of which ``what`` is true; return how many. The database's log keeps them a while."""
        query = "SELECT key, text, cut FROM mnemotune_replies WHERE cache = %s"
        with _as_cache_error():
            rows = self._database.execute(query, (self._name,))
            gone = [key for key, text, state in rows if _says(what, text.decode(), state)]
            drop = "DELETE FROM mnemotune_replies WHERE cache = %s AND key = ANY(%s)"
            self._database.execute(drop, (self._name, gone))
            self._database.execute("VACUUM mnemotune_replies")
        return len(gone)

    def close(self) -> None:
        """End the connection."""
        self._database.close()


@contextmanager
def _as_cache_error() -> Iterator[None]:
    try:
        yield
    except DatabaseSilent:
        raise
    except DatabaseError as error:
        raise CacheError(f"cannot use the response cache: {error}") from error


def _kept(completion: Completion) -> tuple[str, int]:
    """Return an answer as a text, and its column ``cut``: whether it was cut, plus WITH_CALLS where it is JSON."""
    calls = [[call.id, call.name, call.arguments] for call in completion.tool_calls]
    text = json.dumps([completion.text, calls], ensure_ascii=False) if calls else completion.text
    return text, completion.usage.cut + WITH_CALLS * bool(calls)


def _says(what: Callable[[str], bool], text: str, state: int) -> bool:
    completion = _known(text, 0, 0, state)
    return any(map(what, (completion.text, *(call.arguments for call in completion.tool_calls))))


def _known(text: str, input_tokens: int, output_tokens: int, state: int) -> Completion:
    usage = Usage(input_tokens, output_tokens, cost_usd=0.0, cached=True, cut=bool(state % WITH_CALLS))
    said, calls = json.loads(text) if state >= WITH_CALLS else (text, ())
    return Completion(said, usage, tuple(ToolCall(*call) for call in calls))
