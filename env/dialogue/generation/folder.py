"""The work folder of a generation: one file for each finished stage of each user."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....data.errors import MnemotuneError
from ....data.json_files import read_json, write_json

PLAN = "plan.json"
DROPPED = "dropped"
FREE = ("users", "attempts", "refinements")
"""Numbers of a plan that may change on the way: what is finished would be the same."""


class GenerationError(MnemotuneError, ValueError):
    """Say why users cannot be made in a folder, and what to do."""


@dataclass(frozen=True, slots=True)
class UserFolder:
    """The finished stages of one user."""

    path: Path
    trial: int = 0
    """How often the user was dropped for the model's replies before."""

    def read(self, stage: str) -> dict[str, Any] | None:
        """Return a finished stage; None when it is not finished, or its file is damaged."""
        value = read_json(self.path / f"{stage}.json")
        return value if isinstance(value, dict) else None

    def write(self, stage: str, value: Mapping[str, Any]) -> None:
        """Write a finished stage down, whole or not at all."""
        write_json(self.path / f"{stage}.json", value)

    def drop(self, *, stage: str, reason: str, replied: bool) -> None:
        """Note that the user was dropped; after bad replies the next trial asks for others."""
        self.write(DROPPED, {"stage": stage, "reason": reason, "trial": self.trial + replied})

    def finish(self) -> None:
        """Note that the user was not dropped after all."""
        (self.path / f"{DROPPED}.json").unlink(missing_ok=True)


def open_user(parts: Path, index: int, user: str) -> UserFolder:
    """Return the folder of a user, whose id may be no name for a folder."""
    path = parts / f"{index:04d}-{re.sub(r'[^A-Za-z0-9_-]', '_', user)[:60]}"
    path.mkdir(parents=True, exist_ok=True)
    noted = read_json(path / f"{DROPPED}.json")
    trial = noted.get("trial") if isinstance(noted, dict) else 0
    return UserFolder(path, trial if isinstance(trial, int) else 0)


def check_free(parts: Path) -> None:
    """Raise GenerationError when a folder is in use for something else."""
    if not (parts / PLAN).exists() and parts.is_dir() and any(parts.glob("*.json")):
        raise GenerationError(f"{parts}: is in use for something else; name another folder with --parts")


def claim(parts: Path, settings: Mapping[str, Any]) -> None:
    """Note in a new folder what its users are made from; go on in an old folder only with the same settings.

    Raises GenerationError naming what differs.
    """
    before = read_json(parts / PLAN)
    if (parts / PLAN).exists() and not isinstance(before, dict):
        raise GenerationError(f"{parts / PLAN}: is damaged; move {parts} away to begin anew")
    names = () if before is None else sorted({*before, *settings} - set(FREE))
    if differing := [name for name in names if before.get(name) != settings.get(name)]:
        changes = "; ".join(f"{n} was {_short(before.get(n))} and is {_short(settings.get(n))}" for n in differing)
        raise GenerationError(
            f"{parts}: holds users made from other settings: {changes}. Go on with the same settings, name another "
            f"folder with --parts, or move this one away to begin anew"
        )
    write_json(parts / PLAN, settings)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:20]}..."
