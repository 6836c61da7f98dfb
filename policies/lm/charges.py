"""What a study has been charged for each request: once, however often it is asked and whoever answers."""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ...data.errors import MnemotuneError
from .cache import sqlite_explained
from .ledger import CallRole, Ledger, Spend, Usage

UNSAVED = 2000
"""Charges of calls that were not sent that may be lost with the process: they are made again for nothing."""


class ChargesError(MnemotuneError, RuntimeError):
    """The file of charges cannot be used; the message says why and what to do."""


class Charges:
    """Charges by request, in a SQLite file of one process at a time."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        """Open or create the file. Raises ChargesError when it is damaged, another file, or not writable."""
        self.path = path
        with self._explained():
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._unsaved = 0
            known = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master")}
            if known and "charges" not in known:
                raise sqlite3.DatabaseError("it holds other tables")
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS charges (key BLOB PRIMARY KEY, phase TEXT NOT NULL, role TEXT NOT NULL,"
                " calls INTEGER NOT NULL, cached INTEGER NOT NULL, input_tokens INTEGER NOT NULL,"
                " output_tokens INTEGER NOT NULL, cost_usd REAL, open INTEGER NOT NULL) WITHOUT ROWID"
            )

    def is_open(self, key: bytes) -> bool | None:
        """Tell whether the answer to a request that was sent is not here yet; None where it was never charged."""
        with self._explained():
            row = self._connection.execute("SELECT open FROM charges WHERE key = ?", (key,)).fetchone()
        return None if row is None else bool(row[0])

    def add(
        self, key: bytes, role: CallRole, usage: Usage, *, phase: str, calls: int, is_open: bool, save: bool
    ) -> None:
        """Add to what a request is charged; tokens may be less than nothing, to correct a worst case.

        The phase and the role are those of its first charge. With ``save`` it is on the disk when this returns.
        """
        tokens = usage.input_tokens, usage.output_tokens
        self._insert(
            "ON CONFLICT (key) DO UPDATE SET calls = calls + excluded.calls, cached = cached + excluded.cached,"
            " input_tokens = input_tokens + excluded.input_tokens,"
            " output_tokens = output_tokens + excluded.output_tokens,"
            " cost_usd = cost_usd + excluded.cost_usd, open = excluded.open",
            (key, phase, role, calls, calls * usage.cached, *tokens, usage.cost_usd, is_open),
            save=save,
        )

    def add_new(self, key: bytes, role: CallRole, usage: Usage, *, phase: str) -> bool | None:
        """Charge a request as one call unless it was charged before; return what ``is_open`` told until now."""
        tokens = usage.input_tokens, usage.output_tokens
        values = (key, phase, role, 1, usage.cached, *tokens, usage.cost_usd, False)
        is_new = self._insert("ON CONFLICT (key) DO NOTHING", values)
        return None if is_new else self.is_open(key)

    def _insert(self, on_conflict: str, values: tuple[Any, ...], *, save: bool = False) -> bool:
        """Insert a row, and tell whether the file changed."""
        with self._explained():
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN")
            insert = f"INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) {on_conflict}"  # noqa: S608 - our own text
            changed = self._connection.execute(insert, values).rowcount > 0
        self._unsaved += changed
        if save or self._unsaved >= UNSAVED:
            self.save()
        return changed

    def ledger(self, phase: str | None = None) -> Ledger:
        """Return the charges of a phase, or of all phases, by role."""
        with self._explained():
            rows = self._connection.execute(
                "SELECT role, SUM(calls), SUM(cached), SUM(input_tokens), SUM(output_tokens),"
                " CASE WHEN COUNT(cost_usd) = COUNT(*) THEN SUM(cost_usd) END"
                " FROM charges WHERE phase = ?1 OR ?1 IS NULL GROUP BY role ORDER BY MIN(phase), role",
                (phase,),
            )
            return Ledger({role: Spend(*spent) for role, *spent in rows})

    def save(self) -> None:
        """Write down what was added."""
        self._unsaved = 0
        with self._explained():
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    def close(self) -> None:
        """Save and release the file. Closing twice does no harm."""
        try:
            self.save()
        except sqlite3.ProgrammingError:
            return
        self._connection.close()

    def _explained(self) -> AbstractContextManager[None]:
        advice = "the file is damaged or another program's: start another run in a new folder"
        return sqlite_explained(f"{self.path}, which counts what was spent", ChargesError, if_damaged=advice)
