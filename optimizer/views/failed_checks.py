"""The failures of the sealed test, as the report's page has them: packed, and drawn when somebody looks."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...env.failed_checks import FAILURES, read_failed_checks
from ..search.sealed import EVOLVED, SEED

POLICIES = (SEED, EVOLVED)


@dataclass(frozen=True, slots=True)
class PackedFailedChecks:
    """Failures of seed and evolved policy in one text."""

    text: str
    """JSON, compressed by gzip, in Base64: ``lines``, and by policy the failures that ``write_failed_checks`` wrote."""
    groups: int
    """How many groups it has, the first ones."""
    left_out: int
    """Groups that are left to the files."""
    files: tuple[str, ...]
    """Where all of them are, in the run's folder."""


def packed_failed_checks(folder: Path, *, most: int) -> PackedFailedChecks | None:
    """Read the failures of a run's sealed test; None where it has none. Raises RecordError.

    Groups whose failures would take the text over ``most`` bytes are left to the files.
    """
    found = {name: read_failed_checks(folder / "test" / name) for name in POLICIES}
    by_policy = {name: values for name, values in found.items() if values is not None}
    if not by_policy:
        return None
    groups = list(dict.fromkeys(f["group"] for values in by_policy.values() for f in values["failures"]))
    shown = len(groups)
    while len(text := _packed(by_policy, groups[:shown])) > most and shown:
        shown = min(shown - 1, shown * most // len(text))
    files = tuple(f"test/{name}/{FAILURES}" for name in by_policy)
    return PackedFailedChecks(text, shown, len(groups) - shown, files)


def _packed(by_policy: Mapping[str, Mapping[str, Any]], groups: Sequence[str]) -> str:
    lines: dict[str, int] = {}
    kept = {name: _renumbered(values, lines, set(groups)) for name, values in by_policy.items()}
    whole = json.dumps({"lines": [*lines], "policies": kept}, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(whole.encode("utf-8", "replace"), mtime=0)).decode("ascii")


def _renumbered(values: Mapping[str, Any], lines: dict[str, int], groups: set[str]) -> list[dict[str, Any]]:
    """Return the failures of some groups, whose texts name their lines by their places in ``lines``."""

    def places(text: Sequence[int]) -> list[int]:
        return [lines.setdefault(values["lines"][place], len(lines)) for place in text]

    return [
        failure
        | {
            "asked": places(failure["asked"]),
            "account": places(failure["account"]),
            "came_back": [*map(places, failure.get("came_back", ()))],
            "needs": [_shown(need) | {"held_then": [*map(places, need["held_then"])]} for need in failure["needs"]],
        }
        for failure in values["failures"]
        if failure["group"] in groups
    ]


def _shown(need: Mapping[str, Any]) -> dict[str, Any]:
    """Return a need whose ``shown`` older files call ``came_back``."""
    return {"shown" if name == "came_back" else name: value for name, value in need.items()}
