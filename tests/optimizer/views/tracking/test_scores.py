"""Scores that no search is behind, in MLflow."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.config import parse_config
from mnemotune.optimizer.search.ablation import Compared, Variant
from mnemotune.optimizer.views.tracking.scores import log_ablation

SETTINGS = "data: base, splits: {train: 2, validation: 2, test: 3}, seed_policy: native"
SCORE, UNKNOWN = Estimate(0.31234, 0.2, 0.4, 8), Estimate(math.nan, math.nan, math.nan, 0)


@pytest.fixture
def uri(empty_store: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(empty_store, tmp_path / 'mlflow.db')}"


def the_run(uri: str) -> Any:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("mnemotune")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return run


def test_the_variants_of_an_ablation_are_a_run_beside_its_searches(uri: str, tmp_path: Path) -> None:
    first, beside = Compared(SCORE, None), Compared(SCORE, Estimate(-0.1, -0.2, 0.05, 8))
    variants = [
        Variant("as it is", (), first, UNKNOWN, Compared(UNKNOWN, None), Compared(UNKNOWN, None)),
        Variant("no racing", (), beside, SCORE, beside, Compared(SCORE, SCORE)),
    ]
    config = parse_config(f"{{{SETTINGS}, tracking: {{uri: '{uri}'}}}}", where="x")
    log_ablation(variants, config, tmp_path / "parts", about={"seeds": (0, 1)})
    run = the_run(uri)
    assert (run.info.run_name, run.info.status, run.data.params) == ("ablation parts", "FINISHED", {"seeds": "(0, 1)"})
    assert run.data.metrics["no-racing/memory_score_difference_low"] == -0.2
    assert run.data.metrics["as-it-is/memory_score"] == 0.3123
    assert run.data.metrics["no-racing/evidence_recall"] == 0.3123
    assert run.data.metrics["no-racing/evidence_recall_difference_low"] == -0.2
    assert run.data.metrics["no-racing/mean_of_both_difference"] == 0.3123
    scores = {f"as-it-is/memory_score{end}" for end in ("", "_low", "_high")}
    assert {name for name in run.data.metrics if name.startswith("as-it-is/")} == scores


def test_an_ablation_without_tracking_is_not_logged(tmp_path: Path) -> None:
    config = parse_config(f"{{{SETTINGS}, tracking: none}}", where="x")
    log_ablation([], config, tmp_path / "parts", about={})
    assert not [*tmp_path.iterdir()]
