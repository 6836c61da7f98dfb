from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemotune.env.memrm.rows.row import EvictedMessage, FactLabel, Row, write_rows

MakeRow = Callable[..., Row]
PLACES = ("harbour", "mountains", "suburbs", "city centre", "old mill", "island", "valley", "border")
PETS = ("parrot", "terrier", "tortoise", "hamster", "pony", "goldfish", "beagle", "ferret")


def made_row(rng: random.Random, *, user: str, policy: str = "p", write: int = 0) -> Row:
    """A user tells a place; what is written keeps it or not."""
    place, pet = rng.choice(PLACES), rng.choice(PETS)
    kept = rng.random() < 0.5
    said = f"I moved to the {place} last week. My neighbour has a {pet}. What should I pack?"
    written = f"The user moved to the {place}." if kept else f"A neighbour has a {pet}."
    before = [f"The user likes the {rng.choice(PETS)}." for _ in range(rng.randrange(4))]
    heard = [EvictedMessage(role="user", content=said), EvictedMessage(role="assistant", content="I see.")]
    facts = [FactLabel(key="home_place", topic="home", lost=not kept, message=0, sentence=0)]
    return Row(
        group=user,
        task=user,
        policy=policy,
        stage=0,
        write=write,
        evicted=heard,
        before=before,
        after=[*before, written],
        facts=facts,
    )


@pytest.fixture
def rows() -> list[Row]:
    rng = random.Random(0)
    return [made_row(rng, user=f"user-{i % 10}", write=i) for i in range(120)]


@pytest.fixture
def rows_file(tmp_path: Path, rows: list[Row]) -> Path:
    write_rows(tmp_path / "rows.jsonl", rows)
    return tmp_path / "rows.jsonl"


@pytest.fixture(scope="session")
def make_row() -> MakeRow:
    return made_row
