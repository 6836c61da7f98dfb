"""Forecasts from recorded episodes.

1. A candidate costs the calls with which it writes, and no other.
2. What keeps more of what questions need is forecast higher.
3. A candidate that fails has no forecast; what would end the search does end it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from mnemotune.data import Scenario
from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env import Cast, DialogueTrack
from mnemotune.env.memrm.forecasting.forecast import Forecast
from mnemotune.env.memrm.trees import Tree
from mnemotune.optimizer.search.screen import ReplayForecaster, load_forecast_model
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Budget, BudgetExhausted, EndpointDown, LanguageModelError, Limits, Metered
from mnemotune.policies.lm.base import Completion, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.policy import MemoryPolicy

PRESENT = Tree(feature=[0, -1, -1], threshold=[0.5, 0.0, 0.0], left=[1, 0, 0], right=[2, 0, 0], value=[0.0, -2.0, 2.0])


class Failing(EmbeddedModel):
    """Fails as it is told."""

    def __init__(self, error: LanguageModelError) -> None:
        super().__init__()
        self._error = error

    async def complete(self, request: Request) -> Completion:
        raise self._error


@pytest.fixture(scope="module")
def life() -> Scenario:
    [scenario] = generate_scenarios(users=1, seed=3)
    return scenario.model_copy(update={"periods": scenario.periods[:3]})


@pytest.fixture
async def forecaster(life: Scenario) -> Callable[..., ReplayForecaster]:
    cast = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder())
    replays = {life.id: await DialogueTrack().begin(life, load_policy("native"), cast).run()}
    judge = replace(load_forecast_model("tiny"), expected=Forecast(start=0.0, trees=[PRESENT]))
    return lambda model: ReplayForecaster(judge, DialogueTrack(), [life], replays, replace(cast, assistant=model))


def changed(policy: MemoryPolicy, **values: object) -> MemoryPolicy:
    return MemoryPolicy.model_validate(policy.model_dump() | values)


@pytest.mark.parametrize(("name", "roles"), [("native", set()), ("rag", set()), ("awe", {"write"}), ("awi", {"write"})])
async def test_a_candidate_costs_the_calls_with_which_it_writes_invariant_1(
    name: str, roles: set[str], forecaster: Callable[..., ReplayForecaster]
) -> None:
    model = Metered(EmbeddedModel())
    assert 0 < await forecaster(model).forecast(load_policy(name)) < 1
    assert set(model.ledger.by_role) == roles


async def test_what_keeps_more_is_forecast_higher_invariant_2(forecaster: Callable[..., ReplayForecaster]) -> None:
    rag, listener = load_policy("rag"), forecaster(EmbeddedModel())
    forgetful, keen, everything = [
        await listener.forecast(policy)
        for policy in (changed(rag, top_k=2), changed(rag, top_k=60), load_policy("native"))
    ]
    assert forgetful < keen <= everything


async def test_a_candidate_whose_model_fails_has_no_forecast_invariant_3(
    forecaster: Callable[..., ReplayForecaster],
) -> None:
    failing = Failing(LanguageModelError("the reply was refused"))
    assert math.isnan(await forecaster(failing).forecast(load_policy("awi")))


@pytest.mark.parametrize("kind", ["endpoint", "budget"])
async def test_what_would_end_the_search_ends_it_invariant_3(
    kind: str, forecaster: Callable[..., ReplayForecaster]
) -> None:
    model = {
        "endpoint": Failing(EndpointDown("nobody is there")),
        "budget": Metered(EmbeddedModel(), budget=Budget(Limits(calls=3))),
    }[kind]
    with pytest.raises(EndpointDown if kind == "endpoint" else BudgetExhausted):
        await forecaster(model).forecast(load_policy("awi"))
