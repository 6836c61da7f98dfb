"""Files of rows: JSON, JSONL and parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .json_files import each_row
from .task import TaskError
from .task_files import each_line

SUFFIXES = (".jsonl", ".json", ".parquet")


def rows_of(file: Path) -> Iterator[Any]:
    """Yield a file's rows, read as its name ends. Raises TaskError naming the file."""
    if file.suffix.lower() == ".parquet":
        yield from _table(file)
        return
    try:
        with file.open(encoding="utf-8-sig") as text:  # some programs mark their files
            if file.suffix.lower() == ".jsonl":
                yield from each_line(text)
            else:
                yield from each_row(text)
    except UnicodeDecodeError as error:
        raise TaskError(f"{file}: is not UTF-8 text ({error})") from None
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, TaskError) else TaskError(f"{file}: is not JSON: {error}") from None


def _table(file: Path) -> Sequence[Any]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows: list[Any] = pyarrow.parquet.read_table(file).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise TaskError(f"{file}: is no parquet file: {error}") from None
    return rows
