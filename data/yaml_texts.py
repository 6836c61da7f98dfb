"""YAML that people write."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from .resources import load_yaml


def parse_yaml(text: str) -> Any:
    """Return what a YAML text holds. Raises ValueError, whose message is one line, when it is not YAML."""
    try:
        return load_yaml(text)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return _parse_slowly(text)


def _parse_slowly(text: str) -> Any:
    """Parse it by the loader that says best where the fault is."""
    try:
        return load_yaml(text, yaml.SafeLoader)
    except RecursionError:
        raise ValueError("is not YAML: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None


def read_utf8(path: Path | Traversable) -> str:
    """Return a file's text. Raises ValueError when it is not UTF-8, and OSError."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text ({error})") from None
