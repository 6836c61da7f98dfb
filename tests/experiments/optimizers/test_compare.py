"""The comparison of optimizers: what is called three times is that, and every optimizer has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.experiments.optimizers.compare import AT_3X, COMPARISON, HERE, OURS, comparisons, with_3x
from mnemotune.optimizer.ablation import Run, load_ablation, runs_of
from mnemotune.optimizer.allowance import Allowance, splits_of
from mnemotune.optimizer.config import Config, ConfigError
from mnemotune.optimizer.models import protocol_of


def runs(problem: str, *overrides: str) -> list[Run]:
    ablation = load_ablation(COMPARISON, seeds=[0]).model_copy(update={"config": problem})
    return runs_of(with_3x(ablation, overrides=overrides), beside=HERE, out=Path("out"), overrides=overrides)


def calls_of(config: Config) -> int:
    return Allowance.of(config, splits_of(config), protocol_of(config)).search.calls or 0


@pytest.mark.parametrize("problem", ["problem.yaml", "written.yaml"])
@pytest.mark.parametrize(
    "overrides", [(), ("search.budget.calls=100000", "splits.test=20"), ("baselines=[rag]", "search.candidates=3")]
)
def test_3x_is_three_times_what_the_sealed_test_leaves(problem: str, overrides: tuple[str, ...]) -> None:
    calls = {run.variant: calls_of(run.config) for run in runs(problem, *overrides)}
    assert len({calls[name] for name in calls if not name.endswith(AT_3X)}) == 1
    assert len({calls[name] for name in calls if name.endswith(AT_3X)}) == 1
    assert 3 <= calls[OURS + AT_3X] / calls[OURS] < 3.1


def test_without_a_limit_there_is_no_three_times_as_many() -> None:
    with pytest.raises(ConfigError, match="without a limit"):
        runs("problem.yaml", "search.budget.calls=null")


def test_mnemotune_is_compared_with_every_other_and_never_with_more_calls() -> None:
    names = [run.variant for run in runs("problem.yaml")]
    found = comparisons(names)
    for compared in found.values():
        assert compared[0].startswith(OURS)
        assert {name.removesuffix(AT_3X) for name in compared} == {n.removesuffix(AT_3X) for n in names}
    assert not any(name.endswith(AT_3X) for name in found["equal calls"])
    assert all(name.endswith(AT_3X) or name == OURS for name in found["three times the calls"])
