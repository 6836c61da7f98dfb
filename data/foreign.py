"""Rows that other programs have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def cleaned(value: Any) -> Any:
    """Return a JSON value without keys that have no value, and with ``?`` for half characters.

    A table has a column's every key in each of its rows; half characters can be neither sent nor stored.
    """
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [cleaned(inner) for inner in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def parsed(value: Any) -> Any:
    """Return what a JSON text holds, cleaned: some files have lists and objects as texts."""
    holds = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    return cleaned(json.loads(value)) if holds else value
