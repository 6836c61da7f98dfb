"""What ends an episode of the dialogue early.

Invariants:

1. A failed call ends one episode and is told there; what was complete until then is kept.
2. A spent budget, a dead endpoint and an error of the program end everything.
3. Nothing is left under way, whatever the end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.env.dialogue.record import period_of
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    EndpointDown,
    LanguageModelError,
    Limits,
    Metered,
    Refused,
    Request,
)
from staged import rollout

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario, RunVirtually

NATIVE = load_policy("native")
AWI = load_policy("awi")


def fails(when: Any, *, error: type[Exception] = LanguageModelError, says: str = "fine") -> Any:
    """Say something, but raise for requests whose text holds ``when``."""

    def said(request: Request) -> str:
        if any(when in message.content for message in request.messages):
            raise error(f"no reply for {request.role}")
        return says

    return said


@pytest.mark.parametrize(("role", "kept"), [("reply", 1), ("user", 1), ("write", 1), ("answer", 1), ("probe", 1)])
async def test_a_call_that_fails_for_good_ends_the_episode_and_keeps_what_was_complete(
    role: str, kept: int, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario = make_scenario(sessions=(4, 2, 2))
    model = make_model(**{role: fails("in period 1", says="{}")})
    episode = await rollout(scenario, AWI, make_cast(model))
    assert episode.failure == f"no reply for {role}"
    assert len(episode.stages) == kept
    assert (episode.task, episode.policy_key) == ("ann", AWI.key)
    assert len(period_of(episode, 0).answers) == 2
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    ("role", "refused"), [("reply", True), ("user", False), ("write", True), ("answer", True), ("probe", True)]
)
async def test_what_the_policy_asks_and_the_endpoint_refuses_is_told_apart_from_what_was_lost_invariant_1(
    role: str, refused: bool, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """What the simulated user cannot say is no fault of the policy's."""
    model = make_model(**{role: fails("in period 1", error=Refused, says="{}")})
    episode = await rollout(make_scenario(sessions=(4, 2, 2)), AWI, make_cast(model))
    assert (episode.failure, episode.refused) == (f"no reply for {role}", refused)


async def test_an_episode_that_fails_at_once_has_no_period(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    episode = await rollout(make_scenario(), NATIVE, make_cast(make_model(reply=fails("ann"))))
    assert (episode.failure, episode.stages) == ("no reply for reply", ())


def test_the_reason_told_is_that_of_the_earliest_period(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast, run_virtually: RunVirtually[Any]
) -> None:
    model = make_model(
        answer=fails("in period 0"),
        reply=fails("in period 1"),
        delay=lambda request: 50.0 if request.role == "answer" else 1.0,
    )
    episode, _ = run_virtually(rollout(make_scenario(), NATIVE, make_cast(model)))
    assert (episode.failure, episode.stages) == ("no reply for answer", ())


async def test_what_failed_calls_cost_before_they_failed_is_in_the_ledger(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(user=fails("in period 1"))
    episode = await rollout(make_scenario(), NATIVE, make_cast(model))
    assert {role: spend.calls for role, spend in episode.ledger.by_role.items()} == {
        "reply": 3,
        "answer": 2,
        "probe": 2,
    }


@pytest.mark.parametrize("role", ["reply", "user", "write", "answer", "probe"])
async def test_an_error_of_the_program_is_no_failure_of_an_episode(
    role: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(**{role: fails("in period 1", error=ZeroDivisionError, says="{}")})
    with pytest.raises(ZeroDivisionError, match=role):
        await rollout(make_scenario(sessions=(4, 2, 2)), AWI, make_cast(model))
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("role", ["reply", "user", "write", "answer", "probe"])
@pytest.mark.parametrize("error", [BudgetExhausted, EndpointDown])
async def test_a_spent_budget_or_a_dead_endpoint_ends_the_episode_and_everything_under_way(
    role: str, error: type[Exception], make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model(**{role: fails("in period 1", error=error, says="{}")}, delay=lambda _: 0.001)
    with pytest.raises(error):
        await rollout(make_scenario(sessions=(4, 2, 2)), AWI, make_cast(model))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert model.under_way == []


@pytest.mark.parametrize("preset", presets())
def test_a_budget_may_end_an_episode_before_any_call(
    preset: str,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    random_delays: Any,
) -> None:
    scenario, policy = make_scenario(sessions=(3, 1), questions=1), load_policy(preset)
    whole = make_model()
    run_virtually(rollout(scenario, policy, make_cast(whole)))
    needed = len(whole.requests)
    for calls in range(needed + 1):
        model = make_model(delay=random_delays(calls))
        metered = Metered(model, budget=Budget(Limits(calls=calls)))

        async def run(metered: Metered = metered, calls: int = calls) -> None:
            if calls < needed:
                with pytest.raises(BudgetExhausted):
                    await rollout(scenario, policy, make_cast(metered))
            else:
                assert (await rollout(scenario, policy, make_cast(metered))).failure is None

        run_virtually(run())
        assert len(model.requests) == calls
        assert model.under_way == []


async def test_ending_an_episode_from_outside_ends_everything_under_way(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    asked = asyncio.Event()

    def delay(request: Request) -> float:
        if request.role == "user":
            asked.set()
        return 0.0 if request.role == "reply" else 60.0

    model = make_model(delay=delay)
    task = asyncio.create_task(rollout(make_scenario(), NATIVE, make_cast(model)))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert model.under_way == []
