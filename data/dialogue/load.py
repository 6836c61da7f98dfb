"""Load scenarios from a bundled set, a file, a folder, the generator or the Hugging Face hub."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from ..folded import FoldedTask, MadeLater
from ..hub import HubError, fetched
from ..json_files import each_row
from ..nearest import nearest_note
from ..resources import resource
from .generator import generate_scenario, id_of
from .scenario import Scenario, ScenarioError
from .sizes import BASE, HELD_OUT, MOST_USERS, Phrasing

T = TypeVar("T")

MANY_USERS = 200
"""Users that take some seconds to make, which is said."""

_GENERATED = rf"generated:([0-9]{{1,18}})(?:@([0-9]{{0,18}}))?(:{HELD_OUT})?"

_log = logging.getLogger(__name__)


def load_scenarios(source: str | Path, *, users: Iterable[str] | None = None) -> list[Scenario]:
    """Load the scenarios that ``source`` names.

    ``source`` is one of

    - a bundled set's name, for example ``base``;
    - ``generated:USERS`` or ``generated:USERS@SEED``: made on the spot, always the same for the same numbers; with
      ``:b`` at the end the same lives in other words, those of the bundled sets;
    - ``hf:OWNER/NAME``, ``hf:OWNER/NAME@REVISION`` or ``hf:OWNER/NAME/FILE``: a dataset on the Hugging Face hub
      (needs a network; the file defaults to ``v1.base/data.json``);
    - a JSON file with a list of rows, or a folder: its ``data.json``, or else every ``*.json`` in it.

    ``users`` keeps these ids only, in the order of the data.
    Raises ScenarioError naming the file, user, period and field.
    """
    return list(_checked(str(source), users))


def load_folded(source: str | Path, *, users: Iterable[str] | None = None) -> list[FoldedTask]:
    """Load scenarios as ``load_scenarios`` does, folded one after another: ten thousand take 200 MB.

    Users that are made on the spot are made when they are opened first.
    """
    if str(source).startswith("generated:"):
        made = _chosen(str(source), _lives(str(source)), users)
        return [FoldedTask(user, user, 1 + BASE.changed_periods, MadeLater(make)) for user, make in made.items()]
    folded = []
    for scenario in _checked(str(source), users):
        try:
            folded.append(FoldedTask.of(scenario))
        except RecursionError:
            raise ScenarioError(f"{source}: user {scenario.id}: is nested too deeply") from None
    return folded


def _checked(source: str, users: Iterable[str] | None) -> Iterator[Scenario]:
    """Yield the scenarios of a source, those of ``users`` where given; raise when all were seen and some are wrong."""
    if source.startswith("generated:"):
        lives = _chosen(source, _lives(source), users)
        if len(lives) >= MANY_USERS:
            _log.warning("%s: making %s users, which takes a while", source, f"{len(lives):,}")
        yield from (make() for make in lives.values())
        return
    wanted = None if users is None else set(users)
    ids, silent = Counter[str](), []
    for scenario in _load(source):
        ids[scenario.id] += 1
        silent += [] if scenario.qas else [scenario.id]
        if wanted is None or scenario.id in wanted:
            yield scenario
    twice = sorted(user for user, count in ids.items() if count > 1)
    if twice:
        raise ScenarioError(f"{source}: users {', '.join(twice)} occur more than once; ids must be distinct")
    if silent:
        raise ScenarioError(f"{source}: users {', '.join(silent)}: qas: no question, so that nothing can be scored")
    _chosen(source, ids, wanted)


def _chosen(source: str, every: Mapping[str, T], users: Iterable[str] | None) -> Mapping[str, T]:
    """Return what is known of these users, in the order of the data. Raises ScenarioError where one is not there."""
    if users is None:
        return every
    wanted = set(users)
    unknown = sorted(wanted - every.keys())
    if unknown:
        raise ScenarioError(f"{source}: no user {', '.join(unknown)}; there are {', '.join(every)}")
    return {user: known for user, known in every.items() if user in wanted}


def bundled_sets() -> list[str]:
    """Return the names of the scenario sets that ship with the package."""
    return sorted(entry.name.removesuffix(".json") for entry in resource("data", "dialogue", "bundled").iterdir())


def pinned(source: str) -> str:
    """Return a source that names the revision which an ``hf:`` source without one stands for today; others as they are.

    Raises ScenarioError when it cannot be had.
    """
    return _download(source)[0] if source.startswith("hf:") and "@" not in source else source


def _load(source: str) -> Iterator[Scenario]:
    if source.startswith("hf:"):
        return _read(_download(source)[1], where=source)
    path = Path(source)
    if path.is_dir():
        return _load_folder(path)
    if path.is_file():
        return _read(path)
    if source in bundled_sets():
        return _read(resource("data", "dialogue", "bundled", f"{source}.json"), where=source)
    close = nearest_note(source, bundled_sets())
    raise ScenarioError(
        f"{source}: no such file, folder or bundled set{close}; bundled: {', '.join(bundled_sets())}; "
        "or generated:USERS@SEED, hf:OWNER/NAME"
    )


def _lives(source: str) -> dict[str, Callable[[], Scenario]]:
    """Return how each user that a source names is made, by id."""
    numbers = re.fullmatch(_GENERATED, source)
    if numbers is None or int(numbers[1]) < 1:
        raise ScenarioError(f"{source}: write generated:USERS or generated:USERS@SEED, for example generated:40@7")
    users, seed = int(numbers[1]), int(numbers[2] or 0)
    if users > MOST_USERS:
        raise ScenarioError(f"{source}: at most {MOST_USERS:,} users are made on the spot")
    phrasing: Phrasing = HELD_OUT if numbers[3] else "a"
    return {
        id_of(index, seed=seed): partial(generate_scenario, index, seed=seed, phrasing=phrasing)
        for index in range(users)
    }


def held_out(source: str) -> str | None:
    """Return the source of the same users in the words that are held out for sealed tests; None where there is none."""
    generated = re.fullmatch(_GENERATED, source)
    return None if generated is None or generated[3] else f"{source}:{HELD_OUT}"


def _load_folder(folder: Path) -> Iterator[Scenario]:
    whole = folder / "data.json"
    files = [whole] if whole.is_file() else sorted(folder.glob("*.json"))
    if not files:
        raise ScenarioError(f"{folder}: holds neither data.json nor any other *.json file")
    return (scenario for file in files for scenario in _read(file))


def _read(path: Path | Traversable, *, where: str | None = None) -> Iterator[Scenario]:
    """Yield the users of a file; raise when all were seen and some are wrong."""
    place, problems, first = where or str(path), list[str](), None
    for position, row in enumerate(_rows(path, place)):
        first = first or row
        try:
            yield Scenario.parse(row, position=position)
        except ScenarioError as error:
            problems += [f"{place}: {line}" for line in str(error).splitlines()]
    if not isinstance(first, dict):
        raise ScenarioError(f"{place}: must be a list of users, as AMemGym's data.json, with at least one")
    if problems:
        raise ScenarioError("\n".join(problems))


def _rows(path: Path | Traversable, place: str) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig") as file:
        try:
            yield from each_row(file)
        except UnicodeDecodeError as error:
            raise ScenarioError(f"{place}: is not UTF-8 text ({error})") from None
        except (ValueError, RecursionError) as error:
            raise ScenarioError(f"{place}: is not JSON: {error}") from None


def _download(source: str) -> tuple[str, Path]:
    """Return a source on the hub with its revision, and the file."""
    name, _, revision = source.removeprefix("hf:").partition("@")
    owner, _, rest = name.partition("/")
    dataset, _, file = rest.partition("/")
    if not dataset or {"", ".", ".."} & set(name.split("/")):  # a file of the hub's lies in its dataset
        raise ScenarioError(
            f"{source}: write hf:OWNER/NAME, optionally with @REVISION, for example hf:AGI-Eval/AMemGym"
        )
    inside = file or "v1.base/data.json"
    try:
        path = fetched(f"{owner}/{dataset}", inside, kind="dataset", revision=revision or None)
    except HubError as error:
        advice = "check the network, the name and the revision, or download the file and pass its path"
        raise ScenarioError(f"{source}: could not be fetched ({error}); {advice}") from None
    commit = path.parts[-1 - len(inside.split("/"))]  # datasets--OWNER--NAME/snapshots/COMMIT/FILE
    whole = source if revision else f"hf:{name}@{commit}"
    if whole != source:
        _log.warning("%s is %s today", source, whole)
    return whole, path
