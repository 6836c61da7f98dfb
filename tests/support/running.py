"""A run with the embedded model, and ways to stop it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mnemotune.data import load_scenarios, split_by_group
from mnemotune.optimizer.config import Config, ConfigError
from mnemotune.optimizer.models import track_of
from mnemotune.optimizer.search.allowance import Allowance
from mnemotune.optimizer.search.listener import Listener
from mnemotune.optimizer.search.loop import Loop
from mnemotune.optimizer.search.outcome import Outcome
from mnemotune.optimizer.search.run import evolve, resume
from mnemotune.optimizer.views.listeners import listeners_at
from mnemotune.optimizer.views.progress import Progress
from mnemotune.policies.lm import Completion, Ledger, Request
from mnemotune.policies.lm.chain import NO_CALLS
from mnemotune.policies.lm.embedded import EmbeddedModel

SIZES = {"train": 2, "validation": 4, "test": 3}
TRIAL_2 = "    2  "
"""How the line of trial 2 begins."""


class Stop(Exception):  # noqa: N818 - whatever ends a run from outside
    """The power is gone."""


class Screen(io.StringIO):
    """What a run prints; pulls the plug when it reads ``until``."""

    def __init__(self, until: str = "\0", plug: type[BaseException] = Stop) -> None:
        super().__init__()
        self.until = until
        self.plug = plug

    def write(self, text: str) -> int:
        if self.until in text:
            raise self.plug
        return super().write(text)


def go(config: Config, folder: Path, screen: Screen | None = None, *, views: bool = False) -> Outcome:
    return evolve(config, folder, listeners=_listeners(screen, views))


def go_on(folder: Path, *overrides: str, screen: Screen | None = None, views: bool = False) -> Outcome:
    return resume(folder, overrides=overrides, listeners=_listeners(screen, views))


def _listeners(screen: Screen | None, views: bool) -> list[Listener]:
    """The report and MLflow's view take longer than a small run, so that a test says when it looks at them."""
    console = Console(file=screen or Screen(), width=200)
    return listeners_at(console) if views else [Progress(console)]


def scores(rows: Any) -> Any:
    """Return evaluations without what a run's speed and its stops may change."""
    same = {"spend": Ledger(), "wall_s": 0.0, "critical_path": NO_CALLS}
    return {name: replace(row, **same) for name, row in rows.items()}


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a run, the databases left out: their bytes are SQLite's affair."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".db")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def spent(outcome: Outcome) -> int:
    calls: int = outcome.as_json()["budget"]["spent"]["calls"]
    return calls


def assert_same_study(outcome: Outcome, other: Outcome, kit: Any) -> None:
    both = zip(outcome.study.trials, other.study.trials, strict=True)
    for trial, twin in both:
        assert kit.told(trial, spend=False) == kit.told(twin, spend=False)
    assert outcome.ended == other.ended
    assert spent(outcome) == spent(other), "a request is charged once"
    assert scores(outcome.test.rows) == scores(other.test.rows)
    assert outcome.test.done
    assert other.test.done


def no_calls(monkeypatch: pytest.MonkeyPatch, *, after: int = 0, error: type[BaseException] = Stop) -> None:
    """Let the embedded model answer ``after`` calls and fail then."""
    left = iter(range(after))
    complete = EmbeddedModel.complete

    async def answer(self: EmbeddedModel, request: Request) -> Completion:
        if next(left, None) is None:
            raise error
        return await complete(self, request)

    monkeypatch.setattr(EmbeddedModel, "complete", answer)


def smallest_budget(configured: Callable[..., Config], folder: Path) -> int:
    with pytest.raises(ConfigError) as caught:
        go(configured("search.budget.calls=1"), folder)
    told = re.search(r"the smallest sensible budget is ([\d,]+), or", str(caught.value))
    assert told is not None
    return int(told[1].replace(",", ""))


def watch_calls(
    monkeypatch: pytest.MonkeyPatch, *, most_in_last_look: int | None = None, seen: set[bytes] | None = None
) -> dict[str, int]:
    """Count the requests that are made until the races, the search and the run are over, those ``seen`` left out.

    Fail at one in the last look.
    """
    made = {"races": 0, "search": 0, "all": 0}
    seen = set() if seen is None else seen
    complete, look_last = EmbeddedModel.complete, Loop.look_last
    looking = False

    async def count(self: EmbeddedModel, request: Request) -> Completion:
        if (name := request.identity("embedded")) not in seen:
            if looking and made["all"] - made["races"] == most_in_last_look:
                raise Stop
            seen.add(name)
            made["all"] += 1
        return await complete(self, request)

    async def look(self: Loop) -> None:
        nonlocal looking
        made["races"], looking = made["all"], True
        try:
            await look_last(self)
        finally:
            made["search"], looking = made["all"], False

    monkeypatch.setattr(EmbeddedModel, "complete", count)
    monkeypatch.setattr(Loop, "look_last", look)
    return made


def allowance(outcome: Outcome) -> Allowance:
    config = outcome.config
    splits = split_by_group(load_scenarios(config.data), **SIZES, seed=config.splits.seed)
    return Allowance.of(config, splits, track_of(config))
