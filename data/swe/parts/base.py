"""The settings, and a journal of what is done."""

import configparser
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = "settings.cfg"
MARK = "|"
CALLS: list[tuple[str, str]] = []


def note(text: str) -> None:
    """Write a line of the journal."""
    sys.stdout.write(f"  {MARK} {text}\n")


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a record of a function's calls: its name and its file."""
    file = Path(function.__code__.co_filename).resolve().relative_to(ROOT).as_posix()

    @functools.wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        CALLS.append((function.__name__, file))
        return function(*values, **named)

    return call


def settings() -> configparser.ConfigParser:
    """Read all settings."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / SETTINGS, encoding="utf-8")
    return parser


def setting(section: str, key: str) -> Any:
    """Return a setting, a whole number where it is one."""
    value = settings()[section][key]
    return int(value) if value.lstrip("-").isdigit() else value


def start() -> None:
    """Note what was read."""
    parser = settings()
    for place, section in enumerate(parser.sections(), 1):
        found = ", ".join(f"{key}={value!r}" for key, value in parser[section].items())
        note(f"settings, part {place} of {len(parser.sections())}: {found}")
