"""What a run may spend, and what it has spent when it was stopped.

1. The budget is never overshot, and the sealed test's share of it is never touched by the search.
2. A run that was stopped in its last look and resumed is the run that was not stopped.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mnemotune.optimizer.config import Config, ConfigError
from mnemotune.optimizer.search.loop import Loop
from mnemotune.optimizer.search.outcome import Outcome, open_run
from running import (
    TRIAL_2,
    Screen,
    Stop,
    allowance,
    assert_same_study,
    go,
    go_on,
    no_calls,
    smallest_budget,
    spent,
    watch_calls,
)


def test_a_budget_that_is_too_small_is_refused_before_anything_is_written(
    configured: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_calls(monkeypatch)
    smallest = smallest_budget(configured, tmp_path / "runs" / "run")
    assert smallest > 100
    with pytest.raises(ConfigError, match=r"search\.budget\.calls: .* is too small to learn anything"):
        go(configured(f"search.budget.calls={smallest - 1}"), tmp_path / "runs" / "run")
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Tight:
    """A run whose budget ends its search: its config, what came of it, and the calls that its parts made."""

    config: Config
    outcome: Outcome
    made: dict[str, int]

    @property
    def calls(self) -> int:
        calls = self.config.search.budget.calls
        assert calls is not None
        return calls


def tightly(configured: Callable[..., Config], folder: Path, more: int) -> Tight:
    calls = smallest_budget(configured, folder / "none") + more
    config = configured(f"search.budget.calls={calls}", "search.generations=50", "search.seed=2")
    with pytest.MonkeyPatch.context() as patched:
        made = watch_calls(patched)
        return Tight(config, go(config, folder / "whole"), made)


@pytest.fixture(scope="module")
def tight(longer: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> Tight:
    """Its last look takes more than half of the look's share."""
    tight = tightly(longer, tmp_path_factory.mktemp("tight"), 150)
    assert tight.made["search"] - tight.made["races"] > allowance(tight.outcome).look / 2
    return tight


@pytest.mark.exhaustive("more")
@pytest.mark.parametrize("more", [0, 150])
def test_a_tight_budget_is_kept_and_leaves_the_sealed_test_whole_invariant_1(
    more: int, configured: Callable[..., Config], runs: Path
) -> None:
    tight = tightly(configured, runs, more)
    outcome, calls = tight.outcome, tight.calls
    raced, searched, made = tight.made["races"], tight.made["search"], tight.made["all"]
    assert made == spent(outcome) <= calls
    assert "calls is spent" in (outcome.ended or "")
    assert raced == allowance(outcome).races.calls, "the races end at a call that is one too many"
    assert raced < searched == outcome.search_spend.total.calls <= calls - allowance(outcome).reserve
    assert "last_look" in {trial.kind for trial in outcome.study.trials}
    assert outcome.test.rows.keys() == {"window", "native", "seed", "evolved"}
    assert outcome.test.problem == ""


@pytest.mark.exhaustive("share")
@pytest.mark.parametrize("share", [0.0, 0.99])
def test_a_last_look_that_is_stopped_is_paid_from_its_own_share_alone_invariants_1_2(
    share: float, tight: Tight, runs: Path, kit: Any
) -> None:
    config, calls, counted, whole = tight.config, tight.calls, tight.made, tight.outcome
    most = int(share * (counted["search"] - counted["races"]))
    with pytest.MonkeyPatch.context() as patched:
        before = watch_calls(patched, most_in_last_look=most, seen=(seen := set()))
        with pytest.raises((Stop, ExceptionGroup)):
            go(config, runs / "run")
    assert before == {"races": counted["races"], "search": counted["races"] + most, "all": counted["races"] + most}
    with pytest.MonkeyPatch.context() as patched:
        after = watch_calls(patched, seen=seen)
        outcome = go_on(runs / "run")
    assert after["races"] == 0, "the races have nothing left"
    assert before["all"] + after["search"] <= calls - allowance(outcome).reserve
    assert before["all"] + after["all"] == spent(outcome)
    assert_same_study(outcome, whole, kit)


def test_a_last_look_that_was_taken_is_not_taken_again_invariant_2(
    configured: Callable[..., Config], runs: Path, kit: Any
) -> None:
    """Not where the run is stopped before it has noted that its search is over, either."""
    config = configured("search.generations=1", "search.candidates=1")
    whole = go(config, runs / "whole")
    assert whole.study.trials[-1].kind == "last_look", "this run was chosen because its leader is not accepted before"
    look_last = Loop.look_last

    async def look_and_stop(self: Loop) -> None:
        await look_last(self)
        raise Stop

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Loop, "look_last", look_and_stop)
        with pytest.raises(Stop):
            go(config, runs / "run")
    with pytest.MonkeyPatch.context() as patched:
        after = watch_calls(patched)
        outcome = go_on(runs / "run")
    assert after["search"] == 0
    assert_same_study(outcome, whole, kit)


def test_where_train_users_decide_a_run_has_no_last_look(configured: Callable[..., Config], runs: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        made = watch_calls(patched)
        outcome = go(configured("search.acceptance=train", "search.generations=1"), runs / "run")
    assert made["races"] == made["search"]
    assert not any(trial.validation or trial.kind == "last_look" for trial in outcome.study.trials)


def test_a_run_without_a_limit_ends_when_its_generations_are_done(
    configured: Callable[..., Config], runs: Path
) -> None:
    outcome = go(configured("search.budget.calls=null", "search.generations=1"), runs / "run")
    assert outcome.ended == "all 1 generations are done"
    assert outcome.test.problem == ""


def test_a_run_whose_budget_is_tight_takes_no_more_when_it_is_stopped_again_and_again_invariant_1(
    tight: Tight, runs: Path, kit: Any
) -> None:
    """What an earlier part asked is free, so that each part gets further than the one before."""
    folder, stops = runs / "run", 0
    for start in (lambda: go(tight.config, folder), *[lambda: go_on(folder)] * 50):
        with pytest.MonkeyPatch.context() as patched:
            no_calls(patched, after=tight.calls // 10 + 100 * stops)
            try:
                outcome = start()
                break
            except (Stop, ExceptionGroup):
                stops += 1
    assert stops >= 5
    assert_same_study(outcome, tight.outcome, kit)
    assert sum(outcome.as_json()["calls"].values()) == spent(outcome)


def test_a_run_that_has_lost_what_counts_its_spending_is_refused(stopped: Path) -> None:
    (stopped / "charges.db").unlink()
    with pytest.raises(ConfigError, match=r"charges\.db is gone, which counts what was spent"):
        go_on(stopped)


def test_a_search_that_is_over_leaves_a_larger_budget_to_its_sealed_test(searched_once: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(searched_once, tmp_path / "searched")) / "run"
    trials = len(open_run(folder).study.trials)
    outcome = go_on(folder, "search.budget.calls=30000")
    assert outcome.test.done
    assert len(outcome.study.trials) == trials


def test_a_search_that_is_not_over_goes_further_with_a_larger_budget(
    configured: Callable[..., Config], runs: Path
) -> None:
    calls = smallest_budget(configured, runs / "none")
    config = configured(f"search.budget.calls={calls}", "search.generations=8")
    with pytest.raises(Stop):
        go(config, runs / "run", Screen("where the search starts"))
    outcome = go_on(runs / "run", "search.budget.calls=20000")
    assert outcome.ended == "all 8 generations are done"
    assert outcome.search_spend.total.calls > calls - allowance(outcome).reserve, "more than it was allowed at first"


def test_a_run_warns_once_at_half_and_at_four_fifths_of_a_limit_also_when_it_goes_on(
    configured: Callable[..., Config], runs: Path
) -> None:
    config, first, second = configured("search.budget={tokens: 800000}"), Screen(TRIAL_2), Screen()
    with pytest.raises(Stop):
        go(config, runs / "run", first)
    outcome = go_on(runs / "run", screen=second)
    levels = [n for n in (50, 80) if outcome.consumed.tokens >= n / 100 * 800_000]
    told = re.findall(r"(\d+)% of 800,000 tokens are gone", first.getvalue() + second.getvalue())
    assert levels
    assert [int(n) for n in told] == levels
