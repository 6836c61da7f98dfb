"""How many calls an episode of the dialogue takes, and in which roles."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data import Scenario
from mnemotune.env import Protocol
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import Ledger, Usage
from mnemotune.policies.lm.embedded import EmbeddedModel
from staged import evaluator, rollout

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario

NATIVE = load_policy("native")
AWI = load_policy("awi")


def calls(ledger: Ledger) -> dict[str, int]:
    return {role: spend.calls for role, spend in ledger.by_role.items()}


@pytest.mark.parametrize(
    ("preset", "writes", "without_probes"), [("native", 0, 180), ("rag", 0, 180), ("awi", 48, 228)]
)
async def test_a_life_of_v1_base_takes_exactly_its_known_calls(
    preset: str, writes: int, without_probes: int, base_life: Scenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    episode = await rollout(base_life, load_policy(preset), make_cast(model))
    wanted = {"reply": 50, "user": 20, "answer": 110, "probe": 110} | ({"write": writes} if writes else {})
    assert calls(episode.ledger) == wanted
    assert Counter(request.role for request in model.requests) == Counter(wanted)
    assert len(model.requests) - 110 == without_probes


@given(
    sessions=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    questions=st.integers(0, 3),
    rounds_init=st.integers(1, 3),
    rounds_update=st.integers(1, 4),
)
@settings(max_examples=40, deadline=None)
def test_calls_follow_the_formulas_of_amemgym(
    sessions: list[int],
    questions: int,
    rounds_init: int,
    rounds_update: int,
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
) -> None:
    model = make_model()
    scenario = make_scenario(sessions=sessions, questions=questions)
    asyncio.run(rollout(scenario, AWI, make_cast(model, protocol=Protocol(rounds_init, rounds_update))))
    first, later = sessions[0], sum(sessions[1:])
    rounds = first * rounds_init + later * rounds_update
    assert len(model.asked("reply")) == rounds
    assert len(model.asked("user")) == first * (rounds_init - 1) + later * (rounds_update - 1)
    assert len(model.asked("write")) == max(0, rounds - 2)
    assert len(model.asked("answer")) == len(model.asked("probe")) == len(sessions) * questions


async def test_the_ledger_tells_what_each_role_took(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    assistant = make_model(usage=Usage(100, 10, cost_usd=0.5))
    user = make_model(usage=Usage(3, 2, cost_usd=None, cached=True))
    episode = await rollout(make_scenario(), NATIVE, make_cast(assistant, user=user))
    spend = episode.ledger.by_role
    assert (spend["reply"].calls, spend["reply"].input_tokens, spend["reply"].output_tokens) == (6, 600, 60)
    assert (spend["reply"].cost_usd, spend["reply"].cached) == (3.0, 0)
    assert (spend["user"].calls, spend["user"].cached, spend["user"].cost_usd) == (2, 2, None)


@pytest.mark.parametrize(
    ("preset", "writes"), [("native", {}), ("rag", {}), ("awi", {"write": 48}), ("awe", {"write": 95})]
)
async def test_a_life_of_v1_base_takes_its_known_calls_and_one_for_each_choice(
    preset: str, writes: Mapping[str, int], base_life: Scenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """AWI writes in all rounds but the first two; AWE extracts as often, and merges each time but the first."""
    model = make_model()
    evaluation = await evaluator(make_cast(model)).evaluate(load_policy(preset), [base_life])
    wanted = {"reply": 50, "user": 20, "answer": 110, "probe": 110, "upper_bound": 40, **writes}
    assert calls(evaluation.ledger) == wanted
    assert Counter(request.role for request in model.requests) == Counter(wanted)


@pytest.mark.parametrize("preset", presets())
async def test_calls_stay_within_what_the_protocol_foretells(
    preset: str, generated: list[Scenario], make_cast: MakeCast
) -> None:
    policy, life = load_policy(preset), generated[0].model_copy(update={"periods": generated[0].periods[:3]})
    episode = await rollout(life, policy, make_cast(EmbeddedModel()))
    most = Protocol().episode_calls(life, policy)
    assert episode.ledger.total.calls <= most
    if policy.write.mode != "facts":  # how often facts need merging is not known beforehand
        assert episode.ledger.total.calls == most
