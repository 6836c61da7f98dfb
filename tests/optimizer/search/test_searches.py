"""Searches beside each other, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.data.resources import resource
from mnemotune.optimizer.config import load_config
from mnemotune.optimizer.search import searches
from mnemotune.optimizer.search.ablation import Run
from mnemotune.optimizer.search.searches import carry_out
from searching import FIRST, FullError, one_fails_and_the_other_says_much


@pytest.mark.timeout(120)
def test_a_search_that_fails_ends_the_others_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FIRST, str(tmp_path / "first"))
    monkeypatch.setattr(searches, "usable_cores", lambda: 2)
    config = load_config(resource("configs", "search.yaml"))
    runs = [Run("a", seed, config, tmp_path / str(seed)) for seed in range(2)]
    with pytest.raises(FullError, match="the disk is full"):
        carry_out(runs, listeners=one_fails_and_the_other_says_much, finished=lambda run: None)
