"""What commands print: JSON, and errors in words."""

from __future__ import annotations

import json
from typing import Any

import typer


def explained(error: Exception) -> str:
    """Return an error in words; the system's own name the file, where there is one."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def print_json(values: Any) -> None:
    """Print values as one line of JSON on standard output."""
    typer.echo(json.dumps(values, ensure_ascii=False))
