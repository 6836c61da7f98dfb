"""The comparison of optimizers: what is called a third is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnemotune.experiments.optimizers.compare import COMPARISON, check_third
from mnemotune.optimizer.ablation import Run, load_ablation, runs_of
from mnemotune.optimizer.config import ConfigError


def runs(*overrides: str) -> list[Run]:
    ablation = load_ablation(COMPARISON, seeds=[0])
    return runs_of(ablation, beside=COMPARISON.parent, out=Path("out"), overrides=overrides)


def test_as_it_is_committed_a_third_is_a_third() -> None:
    check_third(runs())
    check_third(runs("search.candidates=3"))


@pytest.mark.parametrize(
    "override", ["search.budget.calls=200000", "splits.test=20", "splits.test=30", "baselines=[rag]"]
)
def test_settings_that_leave_something_else_than_a_third_are_refused_with_the_calls_that_are_one(override: str) -> None:
    with pytest.raises(ConfigError, match="are no third of") as told:
        check_third(runs(override))
    (calls,) = re.findall(r"comparison\.yaml to ([\d,]+)$", str(told.value))
    found = runs(override)
    (third,) = (run for run in found if run.variant == "mnemotune at a third")
    budget = third.config.search.budget.model_copy(update={"calls": int(calls.replace(",", ""))})
    search = third.config.search.model_copy(update={"budget": budget})
    mended = Run(third.variant, 0, third.config.model_copy(update={"search": search}), third.folder)
    check_third([run for run in found if run is not third] + [mended])


def test_without_a_limit_there_is_no_third() -> None:
    with pytest.raises(ConfigError, match="without a limit"):
        check_third(runs("search.budget.calls=null"))
