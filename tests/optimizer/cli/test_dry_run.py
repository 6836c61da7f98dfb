"""``mnemotune evolve --dry-run``: what a run would spend, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def test_a_dry_run_says_what_the_run_will_spend_and_leaves_nothing_behind(cli: Cli, tiny: Path) -> None:
    done = cli("evolve", tiny, "--dry-run", "--json").succeeded()
    assert done.json["total"]["calls"] > 0
    estimated = cli("estimate", tiny, "--json").succeeded().json
    assert {**done.json, "total": None} == {**estimated, "total": None}, "the seconds are this machine's"
    assert not list(Path().iterdir())


def test_a_dry_run_refuses_what_the_run_would_refuse(cli: Cli, tiny: Path) -> None:
    told = cli("evolve", tiny, "--dry-run", "--set", "search.budget.calls=100").refused()
    assert "search.budget.calls: 100 is too small" in told
    assert "is no model" in cli("evolve", tiny, "--dry-run", "--set", "model=nobody").refused()


def test_a_dry_run_is_of_a_run_that_is_to_begin(cli: Cli) -> None:
    assert "leave out --resume" in cli("evolve", "--dry-run", "--resume", "runs/tiny-001").refused()


def test_free_models_show_no_dollars(cli: Cli, tiny: Path) -> None:
    out = cli("evolve", tiny, "--dry-run").succeeded().out
    assert "output tokens" in out
    assert "$" not in out
    assert "cost" not in out
