"""Generated users whose lives are cut short, so that a run takes a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.data.dialogue.scenario import Scenario


def short_lives(*, users: int, periods: int, questions: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return users as a file holds them: ``user-SEED-000`` and so on."""
    rows = [scenario.model_dump(mode="json") for scenario in generate_scenarios(users=users, seed=seed)]
    return [{**row, "periods": row["periods"][:periods], "qas": row["qas"][:questions]} for row in rows]


def lives(*, users: int) -> list[Scenario]:
    """Return short lives of four periods and questions."""
    return [Scenario.parse(row) for row in short_lives(users=users, periods=4, questions=4)]


def write_people(folder: Path, **sizes: int) -> Path:
    """Write short lives to a file, which is returned."""
    path = folder / "people.json"
    path.write_text(json.dumps(short_lives(**sizes)), encoding="utf-8")
    return path
