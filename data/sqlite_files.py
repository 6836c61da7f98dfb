"""Files of SQLite, looked at before anything is written to them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def tables(file: Path) -> set[str]:
    """Return the names of a database's tables, none for an empty file; nothing in it is changed.

    Raises sqlite3.DatabaseError when the file is no database, or cannot be opened.
    """
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)) as database:
        return {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
