"""Tasks of a checkout of WebArena-Infinity, and its verifiers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from ..record import Record, first_problem
from ..task import TaskError
from .task import WebTask

SCHEME = "webarena-infinity:"
FILES = ("real-tasks.json", "function-tasks.json")
"""An app's lists of tasks, of which it has one at least."""
PAGE = "index.html"
MOST_SECONDS = 120
"""That a verifier may take."""

_RUN = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("verifier", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
try:
    done, why = module.verify(sys.argv[2])
except Exception as error:
    done, why = False, f"the verifier failed: {type(error).__name__}: {error}"
print()
print(json.dumps([bool(done), str(why)]))
"""
"""In a process of its own: a verifier brings along what it imports. Its last line is the verdict."""


class Row(Record):
    """A task of a list of tasks."""

    model_config = ConfigDict(extra="ignore")

    id: str
    instruction: str
    verify: str
    """The verifier's file, beginning with the app's folder."""


def tasks_of_checkout(source: str) -> Iterator[WebTask]:
    """Yield the tasks of a checkout, or of an app of it. Raises TaskError naming the file, the row and the field."""
    for app in _apps_of(source):
        for name in FILES:
            if (app / name).is_file():
                yield from _tasks_in(app / name)


def run_verifier(file: Path, server_url: str) -> tuple[bool, str]:
    """Return what a verifier says of an app that is served. It is code of the checkout, and runs as it is.

    A verifier that fails on a state says no. Raises TaskError where it cannot be run.
    """
    command = [sys.executable, "-c", _RUN, str(file), server_url]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise TaskError(f"{file}: the verifier took more than {MOST_SECONDS} s") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        problem = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise TaskError(f"{file}: the verifier cannot be run: {problem}")
    fulfilled, why = json.loads(lines[-1])
    return fulfilled, why


def _apps_of(source: str) -> list[Path]:
    """Return the folders of the apps that a source names."""
    place = Path(source.removeprefix(SCHEME))
    if (place / "apps").is_dir():
        apps = sorted(folder for folder in (place / "apps").iterdir() if _is_app(folder))
    else:
        apps = [app for app in (place.parent / "apps" / place.name, place) if _is_app(app)][:1]
    if not apps:
        wanted = f"{' or '.join(FILES)} beside {PAGE}"
        raise TaskError(f"{source}: no checkout of WebArena-Infinity with apps/APP, nor an app of one ({wanted})")
    return [app.resolve() for app in apps]


def _is_app(folder: Path) -> bool:
    return (folder / PAGE).is_file() and any((folder / name).is_file() for name in FILES)


def _tasks_in(file: Path) -> Iterator[WebTask]:
    app = file.parent
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{file}: is not JSON: {error}") from None
    if not isinstance(rows, list):
        raise TaskError(f"{file}: has to be a list of tasks")
    for position, values in enumerate(rows):
        where = f"{file}: row {position}"
        try:
            row = Row.model_validate(values)
        except ValidationError as error:
            raise TaskError(f"{where}: {' '.join(first_problem(error, whole='row').split())}") from None
        if not row.instruction.strip():
            raise TaskError(f"{where}: instruction: is empty")
        verifier = (app / row.verify).resolve()
        if verifier.suffix != ".py" or not verifier.is_relative_to(app) or not verifier.is_file():
            raise TaskError(f"{where}: verify: {row.verify!r} is no Python file of {app}")
        kind = file.stem.removesuffix("-tasks")
        yield WebTask(
            f"{app.name}/{kind}/{row.id}", app.name, 1, str(app), row.instruction, {}, str(verifier), (), {}, {}
        )
