"""Load scenarios from a bundled set, a file, a folder, the generator or the Hugging Face hub."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..hub import HubError, fetched
from ..resources import resource
from ..yaml_texts import read_utf8
from .generator import generate_scenarios
from .scenario import Scenario, ScenarioError

MOST_USERS = 100_000
"""Users that ``generated:`` makes at most: they are all in memory."""
MANY_USERS = 200
"""Users that take some seconds to make, which is said."""

_log = logging.getLogger(__name__)


def load_scenarios(source: str | Path, *, users: Iterable[str] | None = None) -> list[Scenario]:
    """Load the scenarios that ``source`` names.

    ``source`` is one of

    - a bundled set's name, for example ``base``;
    - ``generated:USERS`` or ``generated:USERS@SEED``: made on the spot, always the same for the same numbers;
    - ``hf:OWNER/NAME``, ``hf:OWNER/NAME@REVISION`` or ``hf:OWNER/NAME/FILE``: a dataset on the Hugging Face hub
      (needs a network; the file defaults to ``v1.base/data.json``);
    - a JSON file with a list of rows, or a folder: its ``data.json``, or else every ``*.json`` in it.

    ``users`` keeps these ids only, in the order of the data.
    Raises ScenarioError naming the file, user, period and field.
    """
    scenarios = _load(str(source))
    twice = sorted(user for user, count in Counter(scenario.id for scenario in scenarios).items() if count > 1)
    if twice:
        raise ScenarioError(f"{source}: users {', '.join(twice)} occur more than once; ids must be distinct")
    silent = [scenario.id for scenario in scenarios if not scenario.qas]
    if silent:
        raise ScenarioError(f"{source}: users {', '.join(silent)}: qas: no question, so that nothing can be scored")
    if users is None:
        return scenarios
    wanted = set(users)
    unknown = sorted(wanted - {scenario.id for scenario in scenarios})
    if unknown:
        raise ScenarioError(f"{source}: no user {', '.join(unknown)}; there are {', '.join(s.id for s in scenarios)}")
    return [scenario for scenario in scenarios if scenario.id in wanted]


def bundled_sets() -> list[str]:
    """Return the names of the scenario sets that ship with the package."""
    return sorted(entry.name.removesuffix(".json") for entry in resource("data", "dialogue", "bundled").iterdir())


def pinned(source: str) -> str:
    """Return a source that names the revision which an ``hf:`` source without one stands for today; others as they are.

    Raises ScenarioError when it cannot be had.
    """
    return _download(source)[0] if source.startswith("hf:") and "@" not in source else source


def _load(source: str) -> list[Scenario]:
    if source.startswith("generated:"):
        return _generate(source)
    if source.startswith("hf:"):
        return _read(_download(source)[1], where=source)
    path = Path(source)
    if path.is_dir():
        return _load_folder(path)
    if path.is_file():
        return _read(path)
    if source in bundled_sets():
        bundled = resource("data", "dialogue", "bundled", f"{source}.json")
        return _parse_text(bundled.read_text(encoding="utf-8"), where=source)
    raise ScenarioError(
        f"{source}: no such file, folder or bundled set; bundled: {', '.join(bundled_sets())}; "
        "or generated:USERS@SEED, hf:OWNER/NAME"
    )


def _generate(source: str) -> list[Scenario]:
    numbers = re.fullmatch(r"generated:([0-9]{1,18})(?:@([0-9]{0,18}))?", source)
    if numbers is None or int(numbers[1]) < 1:
        raise ScenarioError(f"{source}: write generated:USERS or generated:USERS@SEED, for example generated:40@7")
    if int(numbers[1]) > MOST_USERS:
        raise ScenarioError(f"{source}: at most {MOST_USERS:,} users are made on the spot")
    if int(numbers[1]) >= MANY_USERS:
        _log.warning("%s: making %s users, which takes a while", source, f"{int(numbers[1]):,}")
    return generate_scenarios(users=int(numbers[1]), seed=int(numbers[2] or 0))


def _load_folder(folder: Path) -> list[Scenario]:
    whole = folder / "data.json"
    files = [whole] if whole.is_file() else sorted(folder.glob("*.json"))
    if not files:
        raise ScenarioError(f"{folder}: holds neither data.json nor any other *.json file")
    return [scenario for file in files for scenario in _read(file)]


def _read(path: Path, *, where: str | None = None) -> list[Scenario]:
    try:
        text = read_utf8(path)
    except ValueError as error:
        raise ScenarioError(f"{where or path}: {error}") from None
    return _parse_text(text, where=where or str(path))


def _parse_text(text: str, *, where: str) -> list[Scenario]:
    try:
        rows: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{where}: is not JSON: {error}") from None
    if isinstance(rows, dict):
        rows = [rows]
    if not isinstance(rows, list) or not rows:
        raise ScenarioError(f"{where}: must be a list of users, as AMemGym's data.json, with at least one")
    scenarios, problems = [], []
    for position, row in enumerate(rows):
        try:
            scenarios.append(Scenario.parse(row, position=position))
        except ScenarioError as error:
            problems += [f"{where}: {line}" for line in str(error).splitlines()]
    if problems:
        raise ScenarioError("\n".join(problems))
    return scenarios


def _download(source: str) -> tuple[str, Path]:
    """Return a source on the hub with its revision, and the file."""
    name, _, revision = source.removeprefix("hf:").partition("@")
    owner, _, rest = name.partition("/")
    dataset, _, file = rest.partition("/")
    if not dataset or {"", ".", ".."} & set(name.split("/")):  # a file of the hub's lies in its dataset
        raise ScenarioError(
            f"{source}: write hf:OWNER/NAME, optionally with @REVISION, for example hf:AGI-Eval/AMemGym"
        )
    try:
        path = fetched(f"{owner}/{dataset}", file or "v1.base/data.json", kind="dataset", revision=revision or None)
    except HubError as error:
        advice = "check the network, the name and the revision, or download the file and pass its path"
        raise ScenarioError(f"{source}: could not be fetched ({error}); {advice}") from None
    commit = path.parts[path.parts.index("snapshots") + 1]  # datasets--OWNER--NAME/snapshots/COMMIT/FILE
    whole = source if revision else f"hf:{name}@{commit}"
    if whole != source:
        _log.warning("%s is %s today", source, whole)
    return whole, path
