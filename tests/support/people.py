"""Generated users whose lives are cut short, so that a run takes a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.data.dialogue.scenario import Scenario

OTHER_SESSIONS = 1
"""In each period of who has little to say: those that tell nothing which is asked for."""


def short_lives(*, users: int, periods: int, questions: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return users as a file holds them: ``user-SEED-000`` and so on."""
    rows = [scenario.model_dump(mode="json") for scenario in generate_scenarios(users=users, seed=seed)]
    return [{**row, "periods": row["periods"][:periods], "qas": row["qas"][:questions]} for row in rows]


def lives(*, users: int) -> list[Scenario]:
    """Return short lives of four periods and questions."""
    return [Scenario.parse(row) for row in short_lives(users=users, periods=4, questions=4)]


def write_people(folder: Path, **sizes: int) -> Path:
    """Write short lives of people who have little to say to a file, which is returned."""
    path = folder / "people.json"
    path.write_text(json.dumps([_with_less_to_say(row) for row in short_lives(**sizes)]), encoding="utf-8")
    return path


def _with_less_to_say(row: dict[str, Any]) -> dict[str, Any]:
    """Keep of a user's talk what the questions need, and a little of the rest."""
    needed = {info for question in row["qas"] for info in question["required_info"]}
    periods = []
    for period in row["periods"]:
        others = [session for session in period["sessions"] if needed.isdisjoint(session["exposed_states"])]
        left_out = others[OTHER_SESSIONS:]
        periods.append({**period, "sessions": [s for s in period["sessions"] if s not in left_out]})
    return {**row, "periods": periods}
