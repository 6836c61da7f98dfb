"""Users without a score: a candidate whose episodes end with an outage lacks them, and too few scores are no lead."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from mnemotune.optimizer.config import SearchConfig
from mnemotune.policies.lm import Request

pytestmark = pytest.mark.usefixtures("early_looks")

MakeRig = Callable[..., Any]
SEARCH = SearchConfig(generations=1, candidates=1, numbers=False)


def careful(text: str) -> str:
    return text.replace("Care 0.", "Care 100.")


def lost(*names: str) -> Callable[[Request], bool]:
    """Return what tells whether a request of a careful policy is one of these users'."""

    def fails(request: Request) -> bool:
        text = " ".join(message.content for message in request.messages)
        return "Care 100." in text and any(f"{name} asks" in text for name in names)

    return fails


@pytest.mark.parametrize("count", [3, 4])
async def test_a_candidate_that_lost_most_of_its_users_does_not_lead(kit: Any, make_rig: MakeRig, count: int) -> None:
    users = [f"train{number}" for number in range(count)]
    rig = make_rig(pupil=kit.pupil(fails=lost(*users), edits=careful), search=SEARCH)
    await rig.run(kit.policy(0))
    rig.check()
    [_, trial] = rig.study.trials
    assert trial.reason.startswith(f"most of its users have no score; {count} episodes failed, for example: the line")
    assert (trial.led, trial.accepted) == (False, False)


async def test_a_candidate_that_lost_half_of_its_users_may_lead(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(fails=lost("train0", "train1"), edits=careful), search=SEARCH)
    await rig.run(kit.policy(0))
    rig.check()
    assert rig.study.trials[1].validation
    assert sum(map(math.isnan, rig.study.trials[1].train.values())) == 2


async def test_a_candidate_that_loses_most_users_of_a_look_is_not_accepted(kit: Any, make_rig: MakeRig) -> None:
    rig = make_rig(pupil=kit.pupil(fails=lost("valid0", "valid1", "valid2"), edits=careful), search=SEARCH)
    await rig.run(kit.policy(0))
    trial = rig.study.trials[1]
    assert trial.decided_at == "validate"
    assert trial.reason.startswith("most of its users have no score; ")
    assert "episodes failed, for example: the line is dead" in trial.reason
    assert not trial.accepted


@pytest.mark.parametrize("where", ["train", "valid"])
async def test_users_that_no_policy_has_a_score_for_are_no_loss(kit: Any, make_rig: MakeRig, where: str) -> None:
    """Even who is told the state of these cannot answer."""

    class Cannot(type(kit.pupil())):  # type: ignore[misc]
        def _upper_bound_(self, request: Request) -> str:
            said = super()._upper_bound_(request)
            text = " ".join(message.content for message in request.messages)
            flat = any(f"{where}{number} asks" in text for number in range(3))
            return json.dumps({"answer": 3 - json.loads(said)["answer"]}) if flat else said

    rig = make_rig(pupil=Cannot(edits=careful), splits=kit.splits(5, 7, 2), search=SEARCH)
    await rig.run(kit.policy(0))
    trial = rig.study.trials[1]
    assert trial.ahead
    assert sum(map(math.isnan, trial.train.values())) == (3 if where == "train" else 0)
    assert "most of its users have no score" not in trial.reason
