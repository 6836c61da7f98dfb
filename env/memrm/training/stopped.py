"""What a training began with, kept beside its states: it goes on with the same, or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from ....data.json_files import write_json
from ....policies.space import flat
from ..rows.retrievals import retrievals_file
from .recipe import RecipeError, TrainingRecipe

BEGUN = "training.json"
"""There from the beginning of a training to its end."""
WITHOUT_EFFECT = ("experiment", "schedule.threads", "schedule.checkpoint_every")
"""Settings that may change: what is learned is the same, but for the order of floating-point sums."""


def begin(recipe: TrainingRecipe, out: Path, *, resume: bool) -> None:
    """Note what a training begins with in its folder.

    Raises RecipeError where the folder holds something else, or ``resume`` finds no training or another one.
    """
    now, note = _beginning(recipe), out / BEGUN
    if out.is_dir() and any(out.iterdir()):
        if not resume:
            raise RecipeError(f"{out}: is not empty; name another folder, or go on with --resume")
        if not note.is_file():
            raise RecipeError(f"{out}: holds no training that was stopped; name another folder")
        changed = _changed(_read(note), now)
        if changed:
            what = f"its training began with another {changed[0]}"
            raise RecipeError(f"{out}: {what}; go on with that, or name another folder")
    write_json(note, now)


def end(out: Path) -> None:
    """Note that a training is over."""
    (out / BEGUN).unlink(missing_ok=True)


def _beginning(recipe: TrainingRecipe) -> dict[str, str]:
    settings = flat(recipe.model_dump(mode="json"))
    told = {name: json.dumps(value) for name, value in settings.items() if name not in WITHOUT_EFFECT}
    splits = [recipe.splits] if recipe.splits else []
    return told | _digests([*recipe.rows, *map(retrievals_file, recipe.rows), *recipe.apart, *splits])


def _digests(files: Iterable[Path]) -> dict[str, str]:
    digests = {}
    for path in files:
        if path.is_file():
            with path.open("rb") as file:
                digests[f"content of {path}"] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _read(note: Path) -> dict[str, str]:
    try:
        earlier = json.loads(note.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecipeError(f"{note}: cannot be read: {error}; name another folder") from None
    if not isinstance(earlier, dict):
        raise RecipeError(f"{note}: cannot be read: it is no object; name another folder")
    return earlier


def _changed(earlier: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [name for name in dict.fromkeys([*earlier, *now]) if earlier.get(name) != now.get(name)]
