"""Files that hold JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .whole_files import write_whole


def read_json(path: Path) -> Any:
    """Return a file's JSON; None when there is no file, or it is not whole JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):  # text that is not UTF-8 is a ValueError
        return None


def write_json(path: Path, value: Any, *, indent: int = 1) -> None:
    """Write JSON, whole or not at all."""
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=indent) + "\n")
