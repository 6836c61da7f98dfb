"""What proposers ask a model, beside what was committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snapshots import assert_committed, longest

FOLDER = Path(__file__).parent / "prompts"


@pytest.mark.parametrize("name", ["amemgym", "gepa", "reflective"])
def test_the_prompts_of_a_proposer_are_the_committed_ones(bench: Any, name: str) -> None:
    pupil = bench.kit.pupil()
    bench.propose(name, [bench.trial(policy=bench.facts())], model=pupil)
    asked = longest((request.role, request) for request in pupil.asked("propose"))
    assert asked
    assert_committed(asked, FOLDER / f"{name}.txt")
