"""The comparison of optimizers: what is called three times is that, and the best of the others has it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from mnemotune.experiments.optimizers.compare import (
    AT_3X,
    COMPARISON,
    HERE,
    OURS,
    best_baseline,
    comparisons,
    thrice,
    with_calls,
)
from mnemotune.optimizer.config import Config, ConfigError, load_config
from mnemotune.optimizer.models import track_of
from mnemotune.optimizer.search.ablation import Finished, load_ablation, runs_of
from mnemotune.optimizer.search.allowance import Allowance, splits_of


def calls_of(config: Config) -> int:
    return Allowance.of(config, splits_of(config), track_of(config)).search.calls or 0


def search(seed: int, *scores: float) -> Finished:
    by_group = {f"u{i}": score for i, score in enumerate(scores)}
    cost = {"candidates": 9, "accepted": 1, "periods": 10, "calls": 100, "seconds": 1.0}
    return Finished(seed=seed, run=f"run-{seed}", by_group=by_group, window={}, evidence={}, **cost)


SMALL = ("data=generated:8@1", "splits={train: 2, validation: 2, test: 4}", "search.budget.calls=20000")


@pytest.mark.parametrize("problem", ["problem.yaml", "written.yaml"])
@pytest.mark.parametrize("overrides", [SMALL, (*SMALL, "baselines=[rag]", "search.budget.calls=30000")])
def test_3x_is_three_times_what_the_sealed_test_leaves(problem: str, overrides: tuple[str, ...]) -> None:
    ablation = load_ablation(COMPARISON, seeds=[0]).model_copy(update={"config": problem})
    usual = load_config(HERE / problem, overrides=overrides)
    at_3x = with_calls(ablation, [OURS, "tpe"], thrice(usual))
    runs = runs_of(at_3x, beside=HERE, out=Path("out"), overrides=overrides)
    assert [run.variant for run in runs] == [OURS + AT_3X, "tpe" + AT_3X]
    assert all(3 <= calls_of(run.config) / calls_of(usual) < 3.1 for run in runs)
    assert runs[1].config.search.proposers == ("tpe",)


def test_without_a_limit_there_is_no_three_times_as_many() -> None:
    with pytest.raises(ConfigError, match="without a limit"):
        thrice(load_config(HERE / "problem.yaml", overrides=["search.budget.calls=null"]))


def test_the_best_of_the_others_is_best_over_all_its_searches() -> None:
    found = {
        OURS: [search(0, 0.9, 0.9), search(1, 0.9, 0.9)],
        "lucky": [search(0, 0.8, 0.8), search(1, 0.0, 0.0)],
        "steady": [search(0, 0.5, 0.5), search(1, 0.5, math.nan)],
    }
    assert best_baseline(found, by_both=False) == "steady"


def test_the_best_of_the_others_by_both_is_the_one_that_also_shows_the_evidence() -> None:
    found = {
        "scores": [replace(search(0, 0.5, 0.5), evidence={"u0": 0.1, "u1": 0.1})],
        "shows": [replace(search(0, 0.4, 0.4), evidence={"u0": 0.9, "u1": 0.9})],
    }
    assert best_baseline(found, by_both=False) == "scores"
    assert best_baseline(found, by_both=True) == "shows"


def test_mnemotune_is_compared_with_every_other_and_never_with_more_calls() -> None:
    names = list(load_ablation(COMPARISON, seeds=[0]).variants)
    found = comparisons(names, "tpe")
    assert found["equal calls"] == names
    assert names[0] == OURS
    assert found["a third of the calls"] == [OURS, "tpe" + AT_3X]
    assert all(name.endswith(AT_3X) for name in found["three times the calls"])
