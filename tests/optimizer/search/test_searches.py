"""Searches beside each other, in processes of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from mnemotune.data.resources import resource
from mnemotune.optimizer.config import load_config
from mnemotune.optimizer.search import searches
from mnemotune.optimizer.search.ablation import Run
from mnemotune.optimizer.search.listener import Listener
from mnemotune.optimizer.search.searches import Position, carry_out
from mnemotune.policies.lm import Consumed

FIRST = "MNEMOTUNE_TEST_FIRST"
"""The variable of the environment that names the file of the search that came first."""


class FullError(Exception):
    pass


def one_fails_and_the_other_says_much() -> Sequence[Listener]:
    """Fail in the process that comes first; tell of positions without end in the other."""
    try:
        Path(os.environ[FIRST]).touch(exist_ok=False)
    except FileExistsError:
        positions = searches._positions
        assert positions is not None
        while True:
            positions.put((1, Position("searching", 1, 0, 0.5, Consumed(), 0)))
    time.sleep(1)
    raise FullError("the disk is full")


@pytest.mark.timeout(120)
def test_a_search_that_fails_ends_the_others_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FIRST, str(tmp_path / "first"))
    monkeypatch.setattr(searches, "usable_cores", lambda: 2)
    config = load_config(resource("configs", "search.yaml"))
    runs = [Run("a", seed, config, tmp_path / str(seed)) for seed in range(2)]
    with pytest.raises(FullError, match="the disk is full"):
        carry_out(runs, listeners=one_fails_and_the_other_says_much, finished=lambda run: None)
