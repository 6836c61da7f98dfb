"""The failures of the sealed test, as the report's page has them: packed, and drawn when somebody looks."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...env.failed_checks import FAILURES, FailedChecks, Lines, with_texts
from ..search.sealed import EVOLVED, SEED

POLICIES = (SEED, EVOLVED)
GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls gzip's format."""


@dataclass(frozen=True, slots=True)
class PackedFailedChecks:
    """Failures of seed and evolved policy in one text."""

    text: str
    """Lines of JSON, compressed by gzip, in Base64: for each group the ``lines`` that no group before it has, and by
    policy the failures, whose texts name all lines by their places."""
    groups: int
    """How many groups it has, the first ones."""
    left_out: int
    """Groups that are left to the files."""
    files: tuple[str, ...]
    """Where all of them are, in the run's folder."""


def packed_failed_checks(folder: Path, *, most: int) -> PackedFailedChecks | None:
    """Read the failures of a run's sealed test; None where it has none. Raises RecordError.

    Groups from the one on whose failures would take the text over ``most`` bytes are left to the files.
    """
    files = {name: FailedChecks(folder / "test" / name) for name in POLICIES}
    places = {name: file.groups() for name, file in files.items() if file.path.is_file()}
    if not places:
        return None
    groups = list(dict.fromkeys(group for theirs in places.values() for group in theirs))
    lines, packer, packed, shown = Lines(), zlib.compressobj(wbits=GZIP), b"", 0
    for group in groups:
        failures = {name: files[name].at(theirs[group]) for name, theirs in places.items() if group in theirs}
        policies = {name: [with_texts(f, lines.places) for f in theirs] for name, theirs in failures.items()}
        row = _json({"lines": lines.new(), "policies": policies})
        end = packer.copy()
        if _in_base64(len(packed) + len(end.compress(row)) + len(end.flush())) > most:
            break
        packed += packer.compress(row)
        shown += 1
    text = base64.b64encode(packed + packer.flush()).decode("ascii")
    return PackedFailedChecks(text, shown, len(groups) - shown, tuple(f"test/{n}/{FAILURES}" for n in places))


def _json(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _in_base64(size: int) -> int:
    return 4 * math.ceil(size / 3)
