"""The page on a proposer of one's own: its code runs as it stands."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemotune.optimizer.proposer_kinds import PROPOSERS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "your_proposer.md"


@pytest.fixture
def registered() -> Iterator[None]:
    """Register the page's proposer under the name that the page gives it."""
    text = PAGE.read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (name, part) = re.findall(r'^(\w+) = "echoes:(\w+)"$', text, re.MULTILINE)[0]
    module: dict[str, Any] = {}
    exec(program, module)  # noqa: S102 - our own page
    PROPOSERS.register(name, module[part])
    yield
    PROPOSERS.unregister(name)


def test_the_proposer_of_the_page_doubles_a_parent_s_buffer(registered: None, bench: Any) -> None:
    trials = [bench.trial(policy=bench.facts(buffer_size=4))]
    candidate = bench.propose("echo", trials)
    assert (candidate.parent, candidate.policy.buffer_size) == (0, 10)


def test_the_same_draws_give_the_same_candidate(registered: None, bench: Any) -> None:
    first, second = (bench.propose("echo", bench.study(), seed=random.Random(7).randrange(99)) for _ in range(2))
    assert first == second
