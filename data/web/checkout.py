"""Tasks of a checkout of WebArena-Infinity."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from ..record import Record, first_problem
from ..task import TaskError
from .task import WebTask

SCHEME = "webarena-infinity:"
FILES = ("real-tasks.json", "function-tasks.json")
"""An app's lists of tasks, of which it has one at least."""
PARTS = ("index.html", "server.py")
"""What an app is served from."""


class Row(Record):
    """A task of a list of tasks."""

    model_config = ConfigDict(extra="ignore")

    id: str
    instruction: str
    verify: str
    """The verifier's file, below the app's folder."""


def tasks_of_checkout(source: str) -> Iterator[WebTask]:
    """Yield the tasks of a checkout, or of an app of it. Raises TaskError naming the file, the row and the field."""
    for app in _apps_of(source):
        for name in FILES:
            if (app / name).is_file():
                yield from _tasks_in(app / name)


def _apps_of(source: str) -> list[Path]:
    """Return the folders of the apps that a source names."""
    place = Path(source.removeprefix(SCHEME))
    if (place / "apps").is_dir():
        apps = sorted(folder for folder in (place / "apps").iterdir() if _is_app(folder))
    else:
        apps = [app for app in (place.parent / "apps" / place.name, place) if _is_app(app)][:1]
    if not apps:
        wanted = f"{' or '.join(FILES)} beside {' and '.join(PARTS)}"
        raise TaskError(f"{source}: no checkout of WebArena-Infinity with apps/APP, nor an app of one ({wanted})")
    return [app.resolve() for app in apps]


def _is_app(folder: Path) -> bool:
    return all((folder / name).is_file() for name in PARTS) and any((folder / name).is_file() for name in FILES)


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
