"""A run, and trials for it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.optimizer.config import dump_config, parse_config
from mnemotune.optimizer.search.outcome import Outcome, open_run
from mnemotune.policies.lm import Ledger
from mnemotune.policies.lm.ledger import Spend

CONFIG = "{data: base, splits: {train: 2, validation: 2, test: 3}, seed_policy: native, search: {seed: 5}}"


@pytest.fixture
def outcome(tmp_path: Path, empty_study: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """A run without trials, in a folder of runs, seen from elsewhere."""
    folder = tmp_path / "runs" / "mine-001"
    folder.mkdir(parents=True)
    shutil.copy(empty_store, folder.parent / "mlflow.db")
    shutil.copy(empty_study, folder / "study.db")
    (folder / "config.yaml").write_text(dump_config(parse_config(CONFIG, where="test")), encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return open_run(folder)


@pytest.fixture
def trials(kit: Any) -> list[Any]:
    ledgers = [Ledger({"answer": Spend(calls, 0, 10 * calls, calls, 0.0)}) for calls in (100, 1, 40, 200)]
    cost = TurnCost(calls=1.5, input_tokens=100, output_tokens=50)
    profile = {"mode": "profile", "update_every": 4, "buffer_size": 6, "store": "external", "top_k": 9}
    return [
        kit.trial(validation={"v": 0.2, "w": 0.4}, ledger=ledgers[0]),
        kit.trial(
            1, policy=None, decided_at="check", train={}, summary=None, reason="lacks {query}", ledger=ledgers[1]
        ),
        kit.trial(2, summary=None, train={"train0": 0.0}, ledger=ledgers[2]),
        kit.trial(
            3,
            policy=kit.policy(90, **profile),
            parent=2,
            decided_at="validate",
            accepted=True,
            train={"train0": 0.75, "train1": 1.0},
            validation={"v": 0.5, "w": 0.9},
            change="asked for more care",
            reason="better: +0.400 [+0.100, +0.700] over trial 0 on validation",
            ledger=ledgers[3],
            summary=Summary(policy="", accuracy=0.5, shares={"utilisation": 0.3}, per_turn=cost),
            began=datetime(2026, 3, 2, 9, tzinfo=UTC),
        ),
    ]
