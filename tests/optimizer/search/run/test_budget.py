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
from mnemotune.policies.lm import Completion, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
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
    config = configured(f"search.budget.calls={calls}", "search.generations=50")
    with pytest.MonkeyPatch.context() as patched:
        made = watch_calls(patched)
        return Tight(config, go(config, folder / "whole"), made)


@pytest.fixture(scope="module")
def tight(longer: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> Tight:
    """Its last look takes more than half of the look's share."""
    return tightly(longer, tmp_path_factory.mktemp("tight"), 150)


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
    assert outcome.study.trials[-1].kind == "last_look"
    assert outcome.test.rows.keys() == {"window", "native", "seed", "evolved"}
    assert outcome.test.problem == ""


@pytest.mark.parametrize(("share", "taken"), [(0.0, True), (0.99, False)])
def test_a_last_look_that_is_stopped_is_paid_from_its_own_share_alone_invariants_1_2(
    share: float, taken: bool, tight: Tight, runs: Path, kit: Any
) -> None:
    """Where too little is left of it, the leader is not looked at; the sealed test has its own share in any case."""
    config, calls, counted, whole = tight.config, tight.calls, tight.made, tight.outcome
    most = int(share * (counted["search"] - counted["races"]))
    with pytest.MonkeyPatch.context() as patched:
        before = watch_calls(patched, most_in_last_look=most)
        with pytest.raises((Stop, ExceptionGroup)):
            go(config, runs / "run")
    assert before == {"races": counted["races"], "search": counted["races"] + most, "all": counted["races"] + most}
    screen = Screen()
    with pytest.MonkeyPatch.context() as patched:
        after = watch_calls(patched)
        outcome = go_on(runs / "run", screen=screen)
    assert after["races"] == 0, "the races have nothing left"
    assert before["all"] + after["search"] <= calls - allowance(outcome).reserve
    assert before["all"] + after["all"] <= spent(outcome) <= calls
    assert ("The last look could not be finished: the budget of" in screen.getvalue()) is not taken
    assert outcome.test.problem == ""
    kept = whole.study.trials if taken else whole.study.trials[:-1]
    assert [kit.told(t, spend=False) for t in outcome.study.trials] == [kit.told(t, spend=False) for t in kept]


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


def test_what_was_spent_before_a_stop_counts_for_the_budget_invariant_1(
    configured: Callable[..., Config], runs: Path, finished: Outcome
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        no_calls(patched, after=spent(finished) // 3)
        with pytest.raises((Stop, ExceptionGroup)):
            go(configured(), runs / "run")
    before = spent(open_run(runs / "run"))
    assert before >= spent(finished) // 3 - 1
    outcome = go_on(runs / "run")
    assert spent(outcome) >= before + spent(finished) // 2
    assert spent(outcome) <= 20_000


def test_a_tight_budget_is_kept_over_all_parts_of_a_run_that_is_stopped_invariant_1(
    finished: Outcome, configured: Callable[..., Config], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is too short for one policy of the sealed test, so that what it did is paid for and lost."""
    calls = smallest_budget(configured, runs / "none")
    config, folder = configured(f"search.budget.calls={calls}"), runs / "run"
    part = min(row.spend.total.calls for row in finished.test.rows.values()) - 5
    left = asked = made = 0
    complete = EmbeddedModel.complete

    async def count(self: EmbeddedModel, request: Request) -> Completion:
        nonlocal left, asked, made
        asked += 1
        if not left:
            raise Stop
        left, made = left - 1, made + 1
        return await complete(self, request)

    monkeypatch.setattr(EmbeddedModel, "complete", count)
    left, outcome = calls // 2, None
    for _ in range(50):
        try:
            outcome = go_on(folder) if made else go(config, folder)
            break
        except (Stop, ExceptionGroup):
            left = part
    assert outcome is not None, "the budget never ended the run"
    assert calls - part <= asked <= calls
    assert spent(outcome) == asked
    assert sum(outcome.as_json()["calls"].values()) == made
    assert "could not be tested: the budget of" in outcome.test.problem
    left = calls
    assert go_on(folder).test == outcome.test, "the sealed test is never opened again"
    assert left == calls
    assert go_on(folder, f"search.budget.calls={3 * calls}").test.done, "a larger budget finishes it"


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
    config = configured(f"search.budget.calls={calls}", "search.generations=4")
    with pytest.raises(Stop):
        go(config, runs / "run", Screen("where the search starts"))
    outcome = go_on(runs / "run", "search.budget.calls=20000")
    assert outcome.ended == "all 4 generations are done"
    assert outcome.search_spend.total.calls > calls - allowance(outcome).reserve, "more than it was allowed at first"


def test_a_run_warns_once_at_half_and_at_four_fifths_of_a_limit_also_when_it_goes_on(
    configured: Callable[..., Config], runs: Path
) -> None:
    config, first, second = configured("search.budget={tokens: 900000}"), Screen(TRIAL_2), Screen()
    with pytest.raises(Stop):
        go(config, runs / "run", first)
    outcome = go_on(runs / "run", screen=second)
    levels = [n for n in (50, 80) if outcome.consumed.tokens >= n / 100 * 900_000]
    told = re.findall(r"(\d+)% of 900,000 tokens are gone", first.getvalue() + second.getvalue())
    assert levels
    assert [int(n) for n in told] == levels
