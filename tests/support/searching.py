"""Searches of an ablation that fail, in a module that their processes can import."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from mnemotune.optimizer.search import searches
from mnemotune.optimizer.search.listener import Listener
from mnemotune.optimizer.search.searches import Position
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
