"""Files that are written whole or not at all: a full disk, or a kill, leaves what was there before."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes a place, in a folder that is made, when the block ends well.

    Raises OSError naming the place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(path)
    except OSError as error:
        if error.filename not in (None, str(beside)):  # another file's
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text, whole or not at all, into a folder that is made. Raises OSError naming the file."""
    with replacing(path) as file:
        file.write(text.encode())
