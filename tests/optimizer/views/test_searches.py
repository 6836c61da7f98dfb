"""What an ablation says while it searches."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mnemotune.optimizer.config import load_config
from mnemotune.optimizer.search.ablation import Run
from mnemotune.optimizer.search.ablation_plan import AblationPlan, VariantPlan
from mnemotune.optimizer.search.estimate import CostEstimate
from mnemotune.optimizer.search.rehearsal import NOTHING
from mnemotune.optimizer.search.searches import Position
from mnemotune.optimizer.views.searches import SearchesProgress, show_plan
from mnemotune.policies.lm import Consumed

AT = Position("searching", 3, 9, math.nan, Consumed(), 0)


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    config = load_config("quickstart.yaml")
    return [Run(name, seed, config, tmp_path / f"{name}-{seed}") for seed in (0, 1) for name in ("joint", "alone")]


def cost(calls: float, *, usd: float | None = 0.0) -> CostEstimate:
    taken = NOTHING.copy()
    taken[0] = (calls, 100 * calls, 0)
    return CostEstimate({"search": np.asarray(taken)}, 9, 9, "generations", {"reply": usd}, calls / 10)


def planned(*, done: int = 0, usd: float | None = 0.0, limit: int | None = 8000) -> AblationPlan:
    free = Consumed(usd=0.0)
    variants = [VariantPlan(name, 2, done, cost(1000, usd=usd), free) for name in ("joint", "alone")]
    return AblationPlan(4, 2 * done, tuple(variants), limit, 2)


class Hands:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_of(console: Console) -> Sequence[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_lines_say_where_each_search_stands_what_is_spent_and_the_time_left(runs: list[Run]) -> None:
    hands, console = Hands(), Console(file=io.StringIO(), width=80)
    progress = SearchesProgress(console, runs, planned(), clock=hands)
    with progress.shown():
        progress.stands(runs[0], replace(AT, gone=Consumed(100, 2_000_000), calls_ahead=900))
        hands.now = 20.0
        progress.stands(runs[1], replace(AT, best=0.25, gone=Consumed(100, 1_000_000), calls_ahead=700))
    (line,) = lines_of(console)
    assert line == (
        "0/4 searches done · spent 200 calls, 3.0M tokens · ETA 6:00 · joint, seed 0: searching, trial 3/9"
        " · alone, seed 0: searching, trial 3/9, best on validation 0.250"
    ), "900 + 700 calls of what is under way and 2 x 1,000 of what is not, at 10 calls a second"


def test_dollars_are_shown_where_something_is_paid_or_not_known(runs: list[Run]) -> None:
    for usd, there in ((0.0, ""), (1.5, ", $1.50"), (None, ", $ not known")):
        hands, console = Hands(), Console(file=io.StringIO(), width=80)
        progress = SearchesProgress(console, runs, planned(), clock=hands)
        hands.now = 20.0
        progress.stands(runs[0], replace(AT, gone=Consumed(100, 2_000_000, usd)))
        assert f"100 calls, 2.0M tokens{there} · ETA" in lines_of(console)[0]


def test_a_plan_says_what_is_left_and_the_most_that_may_be_spent() -> None:
    console = Console(file=io.StringIO(), width=100)
    show_plan(planned(done=1), console)
    told = "\n".join(lines_of(console))
    assert "Left to spend: about 2,000 calls, 0.2M tokens. It takes 1:40 very roughly" in " ".join(told.split())
    assert "may make 8,000 calls at most" in told
    assert "$" not in told
    assert "cost" not in told


def test_a_plan_says_dollars_where_a_model_costs_some_and_where_nobody_knows() -> None:
    for usd, there in ((0.5, "$2.00"), (None, "$ not known")):
        console = Console(file=io.StringIO(), width=100)
        show_plan(planned(usd=usd, limit=None), console)
        told = "\n".join(lines_of(console))
        assert f"tokens, {there}" in told
        assert "Calls have no limit" in told
