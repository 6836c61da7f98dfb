"""Episodes that stop after a period and go on later.

Invariants:

1. Wherever an episode stopped, in the end it is the one that never stopped, call by call.
2. At a stop it has the first periods of that episode, and nothing is under way.
3. A failed episode stays failed, and costs no further call.
4. An evaluation goes on where the last one of the same policy stopped, unless that was forgotten.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.env import Episode, Evaluator, rollout
from mnemotune.env.dialogue.rollout import Rollout
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import Budget, BudgetExhausted, LanguageModelError, Limits, Metered, Request

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario, RunVirtually

NATIVE, AWI = load_policy("native"), load_policy("awi")
SESSIONS = (3, 1, 2, 1)
CHANGES = {1: {"pet_0": "mid"}, 2: {"flat_1": "mid", "pet_0": "low"}}

stops = st.lists(st.integers(0, 6), max_size=4)


def unless(when: str, *, says: str) -> Any:
    """Say something, but raise for requests whose text holds ``when``."""

    def said(request: Request) -> str:
        if any(when in message.content for message in request.messages):
            raise LanguageModelError(f"no reply for {request.role}")
        return says

    return said


async def in_parts(under_way: Rollout, at: Sequence[int]) -> list[Episode]:
    """Run an episode to each of these stops, then to its end; return it as it was each time."""
    return [await under_way.run(periods) for periods in (*at, None)]


# One episode


@settings(deadline=None, max_examples=60)
@given(preset=st.sampled_from(presets()), sessions=st.lists(st.integers(0, 3), min_size=1, max_size=4), at=stops)
def test_wherever_an_episode_stopped_it_is_the_one_that_never_stopped_invariants_1_2(
    preset: str,
    sessions: list[int],
    at: list[int],
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
) -> None:
    """A stop may be at once, the same again, an earlier one, or beyond the end."""
    scenario, policy = make_scenario(sessions=sessions, questions=1), load_policy(preset)
    stopped, unstopped = make_model(), make_model()
    whole = asyncio.run(rollout(scenario, policy, make_cast(unstopped)))
    *parts, last = asyncio.run(in_parts(Rollout(scenario, policy, make_cast(stopped)), at))
    assert last == whole
    assert Counter(stopped.requests) == Counter(unstopped.requests)
    for number, part in enumerate(parts, start=1):
        assert part.periods == whole.periods[: max(at[:number])]
        assert part.failure is None


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("at", [(1,), (2,), (1, 3), (1, 2, 3, 4)])
def test_however_long_its_calls_take_an_episode_that_stopped_is_the_same_invariants_1_2(
    preset: str,
    at: tuple[int, ...],
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    random_delays: Any,
) -> None:
    scenario, policy = make_scenario(sessions=SESSIONS, changes=CHANGES), load_policy(preset)
    whole = asyncio.run(rollout(scenario, policy, make_cast(make_model())))
    model = make_model(delay=random_delays(len(at)))

    async def run() -> None:
        under_way = Rollout(scenario, policy, make_cast(model))
        for periods in at:
            assert (await under_way.run(periods)).periods == whole.periods[:periods]
            assert model.under_way == []
            assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await under_way.run() == whole

    run_virtually(run())


@pytest.mark.parametrize("at", [(), (1,), (2,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("role", ["reply", "user", "write", "answer", "probe"])
async def test_an_episode_that_failed_stays_failed_and_costs_no_further_call_invariant_3(
    role: str, at: tuple[int, ...], make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """The call fails in period 1; what was complete until then is kept, as without a stop."""
    scenario = make_scenario(sessions=(4, 2, 2))
    whole = await rollout(scenario, AWI, make_cast(make_model(**{role: unless("in period 1", says="{}")})))
    model = make_model(**{role: unless("in period 1", says="{}")})
    under_way = Rollout(scenario, AWI, make_cast(model))
    last = (await in_parts(under_way, at))[-1]
    assert (last.failure, last.periods) == (whole.failure, whole.periods)
    assert len(last.periods) == 1
    asked = len(model.requests)
    assert await in_parts(under_way, (3, 1)) == [last] * 3
    assert len(model.requests) == asked


def test_a_budget_that_ends_in_any_part_is_told_and_not_overshot(
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    random_delays: Any,
) -> None:
    scenario = make_scenario(sessions=(3, 1), questions=1)
    whole = make_model()
    run_virtually(rollout(scenario, AWI, make_cast(whole)))
    for calls in range(len(whole.requests)):
        model = make_model(delay=random_delays(calls))
        metered = Metered(model, budget=Budget(Limits(calls=calls)))

        async def run(metered: Metered = metered) -> None:
            with pytest.raises(BudgetExhausted):
                await in_parts(Rollout(scenario, AWI, make_cast(metered)), (1,))

        run_virtually(run())
        assert len(model.requests) == calls
        assert model.under_way == []


# Evaluations


@settings(deadline=None, max_examples=40)
@given(preset=st.sampled_from(["native", "rag", "awi", "awi_complete"]), at=stops)
def test_an_evaluation_that_goes_on_ends_like_one_that_never_stopped_invariant_4(
    preset: str, at: list[int], make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Users' lives differ in length; a whole one that is asked for again is another episode, so stops only rise."""
    lives = [
        make_scenario(user=name, sessions=sessions, questions=1, changes={1: {"pet_0": "mid"}})
        for name, sessions in (("ann", (2, 1, 1, 1, 1, 1, 1)), ("ben", (1, 1, 2, 1, 1, 1, 1, 1)))
    ]
    policy, stopped, unstopped = load_policy(preset), make_model(), make_model()
    whole = asyncio.run(Evaluator(make_cast(unstopped)).evaluate(policy, lives))
    evaluator, heard = Evaluator(make_cast(stopped)), list[Episode]()

    async def run() -> None:
        for periods in sorted(at):
            part = await evaluator.evaluate(policy, lives, periods=periods, done=heard.append)
            assert [user.periods for user in part.users] == [user.periods[:periods] for user in whole.users]
            assert heard == []
        last = await evaluator.evaluate(policy, lives, done=heard.append)
        assert (last.users, last.episodes, last.upper_bounds) == (whole.users, whole.episodes, whole.upper_bounds)
        assert sorted(heard, key=lambda episode: episode.user) == list(whole.episodes)

    asyncio.run(run())
    assert Counter(stopped.requests) == Counter(unstopped.requests)


async def test_a_life_that_is_shorter_than_asked_for_is_whole_at_once(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name, sessions=sessions) for name, sessions in (("ann", (1,)), ("ben", (1, 1, 1)))]
    heard: list[str] = []
    evaluation = await Evaluator(make_cast(make_model())).evaluate(
        NATIVE, lives, periods=2, done=lambda episode: heard.append(episode.user)
    )
    assert [len(episode.periods) for episode in evaluation.episodes] == [1, 2]
    assert heard == ["ann"]


async def test_what_was_forgotten_begins_anew_invariant_4(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model, alone = make_scenario(), make_model(), make_model()
    evaluator = Evaluator(make_cast(model))
    await evaluator.evaluate(NATIVE, [scenario], periods=1)
    asked = len(model.requests)
    evaluator.forget(NATIVE)
    evaluation = await evaluator.evaluate(NATIVE, [scenario])
    assert evaluation.episodes == (await rollout(scenario, NATIVE, make_cast(alone)),)
    assert Counter(model.requests[asked:]) == Counter(alone.requests)


async def test_forgetting_one_policy_leaves_the_others_invariant_4(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(sessions=SESSIONS), make_model()
    evaluator = Evaluator(make_cast(model))
    for policy in (NATIVE, AWI):
        await evaluator.evaluate(policy, [scenario], periods=2)
    evaluator.forget(NATIVE)
    asked = len(model.requests)
    evaluation = await evaluator.evaluate(AWI, [scenario])
    alone = await rollout(scenario, AWI, make_cast(make_model()))
    assert evaluation.episodes == (alone,)
    before = sum(len(talk) for period in alone.periods[:2] for talk in period.sessions)
    assert len([request for request in model.requests[asked:] if request.role == "reply"]) == (
        alone.ledger.by_role["reply"].calls - before
    )


async def test_what_is_finished_is_not_gone_on_with_invariant_4(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(questions=1), make_model()
    evaluator = Evaluator(make_cast(model))
    first = await evaluator.evaluate(NATIVE, [scenario])
    asked = len(model.requests) - len(model.asked("upper_bound"))
    second = await evaluator.evaluate(NATIVE, [scenario])
    assert first.episodes == second.episodes
    assert len(model.requests) == 2 * asked + len(model.asked("upper_bound"))


async def test_a_user_whose_episode_failed_at_a_stop_stays_failed_invariant_3(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    model = make_model(reply=unless("ben in period 0", says="fine"))
    evaluator, heard = Evaluator(make_cast(model)), list[str]()
    for periods in (1, 2, None):
        evaluation = await evaluator.evaluate(
            NATIVE, lives, periods=periods, done=lambda episode: heard.append(episode.user)
        )
        assert evaluation.failures == {"ben": "no reply for reply"}
        assert list(evaluation.by_user) == ["ann"]
    assert sorted(heard) == ["ann", "ben"]
    assert sum("ben in period 0" in prompt for prompt in model.prompts("reply")) == 1
