"""The loop's budget, and how a search goes on after a stop: invariants 5 and 6 of the tests of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.study import Study, Trial
from mnemotune.policies.lm import EndpointDown, Limits
from mnemotune.policies.lm.ledger import merged

pytestmark = pytest.mark.usefixtures("early_looks")

MakeRig = Callable[..., Any]


class StoppedError(Exception):
    """The power is gone."""


def searching(**search: Any) -> SearchConfig:
    return SearchConfig(**{"generations": 2, "candidates": 2, "numbers": False} | search)


@pytest.mark.parametrize("calls", [0, 1, 60, 104, 207, 208, 209, 212, 300, 356, 400, 503, 504, 10_000])
@pytest.mark.exhaustive("calls")
async def test_a_budget_ends_the_run_with_its_reason_and_is_never_overshot_invariant_5(
    kit: Any, make_rig: MakeRig, calls: int
) -> None:
    """The seed takes 208 calls: 8 users with 2 replies, 16 questions and probes, and 8 calls for the upper bound."""
    whole = make_rig(search=searching(generations=2, candidates=1))
    await whole.run(kit.policy(20))
    needed = len(whole.pupil.requests)
    rig = make_rig(search=searching(generations=2, candidates=1), limits=Limits(calls=calls))
    ended = await rig.run(kit.policy(20))
    rig.check()
    assert len(rig.pupil.requests) <= calls
    if calls >= needed:
        assert ended == "all 2 generations are done"
    else:
        assert ended == f"the search's share of the budget is used up (the budget of {calls:,} calls is spent)"
        assert len(rig.study.trials) < 3
        assert bool(rig.study.trials) == (calls >= 208)
    assert merged([trial.ledger for trial in rig.study.trials]).total.calls <= len(rig.pupil.requests)
    expected = [kit.told(trial) for trial in whole.study.trials[: len(rig.study.trials)]]
    assert [kit.told(trial) for trial in rig.study.trials] == expected


async def test_a_budget_of_tokens_ends_the_run_too_invariant_5(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(limits=Limits(tokens=5000))
    ended = await rig.run(kit.policy(20))
    assert "budget of 5,000 tokens" in ended
    assert sum(10 for _ in rig.pupil.requests) <= 5000
    rig.check()


async def test_a_budget_that_ended_a_run_can_be_raised_and_the_run_goes_on_invariant_6(
    kit: Any, make_rig: MakeRig, storage: str
) -> None:
    whole = make_rig(search=searching(generations=3))
    await whole.run(kit.policy(20))
    rig = make_rig(search=searching(generations=3), limits=Limits(calls=300), storage=storage)
    await rig.run(kit.policy(20))
    assert 0 < len(rig.study.trials) < len(whole.study.trials)
    again = make_rig(search=searching(generations=3), storage=storage)
    assert await again.run(kit.policy(20)) == "all 3 generations are done"
    assert [kit.told(t, spend=False) for t in again.study.trials] == [
        kit.told(t, spend=False) for t in whole.study.trials
    ]


async def test_a_larger_budget_does_not_open_a_broad_start_again_that_was_over(
    kit: Any, make_rig: MakeRig, storage: str
) -> None:
    """The seed takes 208 calls."""
    search = searching(numbers=True, prompts=False, generations=2, candidates=2, broad_start=6)
    rig = make_rig(search=search, limits=Limits(calls=int(208 * 1.9)), storage=storage)
    await rig.run(kit.policy(20))
    first = [trial.policy for trial in rig.study.trials if trial.generation == 1]
    assert len(first) == 2
    again = make_rig(search=search, storage=storage)
    await again.run(kit.policy(20))
    assert [trial.policy for trial in again.study.trials if trial.generation == 1] == first
    assert {trial.generation for trial in again.study.trials} == {0, 1, 2}


@pytest.mark.parametrize(
    "moves",
    [
        {"numbers": False},
        {"numbers": True},
        {"numbers": True, "proposers": ("reflective", "tpe", "merge")},
        {"proposers": ("amemgym", "gepa", "reflective")},
    ],
    ids=["prompts", "broad start", "both", "those that play"],
)
async def test_a_run_stopped_after_any_trial_goes_on_as_if_it_had_never_stopped_invariant_6(
    kit: Any, make_rig: MakeRig, storage: str, moves: dict[str, bool]
) -> None:
    """Spend differs, as proposals are made again; everything else does not."""
    search = searching(generations=3, candidates=3, seed=2, broad_start=5, **moves)
    whole = make_rig(search=search)
    await whole.run(kit.policy(20))
    expected = [kit.told(trial, spend=False) for trial in whole.study.trials]
    assert len(expected) == 1 + search.planned

    def stop(trial: Trial) -> None:
        raise StoppedError

    for stopped in range(1, 2 + search.planned):
        rig = make_rig(search=search, storage=storage, tell=stop)
        with pytest.raises(StoppedError):
            await rig.run(kit.policy(20))
        assert [kit.told(trial, spend=False) for trial in rig.study.trials] == expected[:stopped]
    last = make_rig(search=search, storage=storage)
    assert await last.run(kit.policy(20)) == "all 3 generations are done"
    assert [kit.told(trial, spend=False) for trial in Study(storage, name="evolution").trials] == expected
    assert last.pupil.requests == []


async def test_past_the_broad_start_a_run_stopped_anywhere_goes_on_to_the_same_last_look_invariant_6(
    kit: Any, make_rig: MakeRig, storage: str, request: pytest.FixtureRequest
) -> None:
    """Who proposes is drawn by what came of the candidates before, and what they took."""
    search = searching(generations=9, candidates=4, seed=7, numbers=True)

    def rig(**parts: Any) -> Any:
        pupil = kit.pupil(lucky=True, edits=lambda text: f"{text}\nThink {len(text)} times.")
        return make_rig(pupil=pupil, search=search, **parts)

    async def search_and_look(one: Any) -> None:
        await one.run(kit.policy(60))
        await one.look_last()

    whole, same = rig(), rig()
    for one in (whole, same):
        await search_and_look(one)
        one.check()
    trials = whole.study.trials
    assert [kit.told(trial) for trial in same.study.trials] == [kit.told(trial) for trial in trials]
    assert {trial.proposer for trial in trials[1 : search.broad + 1]} == {"known", "spread", "reflective"}
    assert {"reflective", "tpe", "merge"} & {trial.proposer for trial in trials[search.broad + 1 :]}
    assert trials[-1].kind == "last_look", "this search was chosen because its leader is not accepted before"

    places = (0, 2, 15, 16, 18, 31, trials[-1].number)
    for number in places if request.config.getoption("--all") else places[::3]:

        def stop(trial: Trial, number: int = number) -> None:
            if trial.number == number:
                raise StoppedError

        stopped = rig(storage=storage, tell=stop)
        with pytest.raises(StoppedError):
            await search_and_look(stopped)
        assert len(stopped.study.trials) == number + 1
    last = rig(storage=storage)
    await search_and_look(last)
    assert [kit.told(t, spend=False) for t in last.study.trials] == [kit.told(t, spend=False) for t in trials]
    assert last.pupil.requests == []


@pytest.mark.parametrize("stopped", [4, 6])
@pytest.mark.exhaustive("stopped")
async def test_gepa_takes_up_a_study_where_it_was_stopped_invariant_6(
    kit: Any, make_rig: MakeRig, storage: str, stopped: int
) -> None:
    """By luck some prompts win their minibatch; some proposals give up."""
    search = searching(seed=1, generations=7, candidates=1, proposers=("gepa",))

    def rig(**parts: Any) -> Any:
        pupil = kit.pupil(lucky=True, edits=lambda text: f"{text}\nThink {len(text)} times.")
        return make_rig(pupil=pupil, splits=kit.splits(train=6, sessions=(1,) * 6), search=search, **parts)

    def stop(trial: Trial) -> None:
        if trial.number == stopped:
            raise StoppedError

    whole, first = rig(), rig(storage=storage, tell=stop)
    await whole.run(kit.policy(60))
    trials = whole.study.trials
    assert any("nothing new was better on its minibatch" in trial.reason for trial in trials)
    assert not any("the same policy" in trial.reason for trial in trials), "a lost race is not asked for again"
    with pytest.raises(StoppedError):
        await first.run(kit.policy(60))
    last = rig(storage=storage)
    await last.run(kit.policy(60))
    assert [kit.told(t, spend=False) for t in last.study.trials] == [kit.told(t, spend=False) for t in trials]


@pytest.mark.parametrize("calls", [5, 150, 209, 230, 340, 420])
@pytest.mark.exhaustive("calls")
async def test_a_run_whose_endpoint_went_down_anywhere_goes_on_when_it_is_up_again_invariant_6(
    kit: Any, make_rig: MakeRig, storage: str, calls: int
) -> None:
    search = searching(generations=3)
    whole = make_rig(search=search)
    await whole.run(kit.policy(20))
    left = iter(range(calls))
    pupil = kit.pupil(fails=lambda _: next(left, None) is None, error=EndpointDown("start the server"))
    rig = make_rig(search=search, pupil=pupil, storage=storage)
    with pytest.raises(EndpointDown, match="start the server"):
        await rig.run(kit.policy(20))
    rig.check()
    assert len(rig.study.trials) < len(whole.study.trials)
    again = make_rig(search=search, storage=storage)
    assert await again.run(kit.policy(20)) == "all 3 generations are done"
    assert [kit.told(t, spend=False) for t in again.study.trials] == [
        kit.told(t, spend=False) for t in whole.study.trials
    ]


async def test_the_same_run_twice_gives_the_same_study_spend_included_invariant_6(kit: Any, make_rig: MakeRig) -> None:
    search = searching(numbers=True, seed=3)
    one, same = make_rig(search=search), make_rig(search=search)
    await one.run(kit.policy(20))
    await same.run(kit.policy(20))
    assert [kit.told(trial) for trial in one.study.trials] == [kit.told(trial) for trial in same.study.trials]


async def test_a_finished_study_that_is_given_more_generations_goes_on_invariant_6(
    kit: Any, make_rig: MakeRig, storage: str
) -> None:
    whole = make_rig(search=searching(generations=3))
    await whole.run(kit.policy(20))
    rig = make_rig(search=searching(generations=1), storage=storage)
    await rig.run(kit.policy(20))
    again = make_rig(search=searching(generations=3), storage=storage)
    await again.run(kit.policy(20))
    assert [kit.told(t, spend=False) for t in again.study.trials] == [
        kit.told(t, spend=False) for t in whole.study.trials
    ]
