"""Rows that other programs have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def whole(value: Any) -> Any:
    """Return a JSON value with ``?`` for half characters, which no file can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [whole(part) for part in value]
    return {whole(key): whole(part) for key, part in value.items()} if isinstance(value, dict) else value


def without_nulls(value: Any) -> Any:
    """Return a value without the keys that have none: a table has a column's every key in each of its rows."""
    if isinstance(value, Mapping):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list | tuple) else value


def cleaned(value: Any) -> Any:
    """Return a JSON value without keys that have no value, and with ``?`` for half characters."""
    return whole(without_nulls(value))


def parsed(value: Any) -> Any:
    """Return what a JSON text holds, cleaned: some files have lists and objects as texts."""
    holds = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    return cleaned(json.loads(value)) if holds else value
