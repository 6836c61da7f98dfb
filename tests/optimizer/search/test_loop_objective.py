"""What goes to the sealed test where the objective is score for what a turn costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.env.stored import Stored
from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.search.acceptance import ALPHA_AT_THE_END
from mnemotune.optimizer.study import leader
from mnemotune.policies.lm import LanguageModelError

pytestmark = pytest.mark.usefixtures("early_looks")

MakeRig = Callable[..., Any]


def searching(objective: str = "score-per-token", **search: Any) -> SearchConfig:
    return SearchConfig.model_validate(
        {"generations": 1, "candidates": 1, "numbers": False, "objective": objective} | search
    )


def spread(kind: str, score: float, users: int) -> dict[str, float]:
    return {f"{kind}{i}": score + 0.01 * (i % 2) for i in range(users)}


def told(cost: float) -> Summary:
    shares = {"write": 0.1, "read": 0.1, "utilisation": 0.3}
    return Summary(policy="", accuracy=0.5, shares=shares, per_turn=TurnCost(1.0, cost, 0.0))


def with_trials(make_rig: MakeRig, kit: Any, search: SearchConfig, rows: Sequence[dict[str, Any]], **rig: Any) -> Any:
    """Make a rig whose study holds a seed policy and candidates of made-up scores and costs."""
    made = make_rig(search=search, splits=kit.splits(validation=6), **rig)
    for number, row in enumerate(rows):
        values = {
            "policy": kit.policy(row["care"]),
            "accepted": number == 0 or row.get("accepted", False),
            "train": spread("train", row["train"], 4),
            "validation": spread("valid", row["validation"], 6) if "validation" in row else {},
            "summary": told(row["cost"]),
        }
        made.study.append(kit.trial(number, **values))
    return made


SEED = {"care": 0, "train": 0.0, "validation": 0.0, "cost": 500}
DEAR = {"care": 100, "train": 0.9, "cost": 5000}
CHEAP = {"care": 95, "train": 0.8, "cost": 600}


async def test_the_pick_is_looked_at_last_and_becomes_the_best(kit: Any, make_rig: MakeRig) -> None:
    rig = with_trials(make_rig, kit, searching(), [SEED, DEAR, CHEAP])
    await rig.look_last()
    best = rig.study.best
    assert (best.number, best.parent, best.policy, best.decided_at) == (3, 2, kit.policy(95), "validate")
    assert (best.kind, best.change) == ("pick", "the most score-per-token")
    assert best.look.over_seed.p < best.look.level == ALPHA_AT_THE_END
    assert best.validation.keys() == {user.id for user in rig.splits.validation}


async def test_for_score_alone_the_leader_is_looked_at_whatever_it_costs(kit: Any, make_rig: MakeRig) -> None:
    rig = with_trials(make_rig, kit, searching("score"), [SEED, DEAR, CHEAP])
    await rig.look_last()
    assert rig.study.best.policy == kit.policy(100)
    assert rig.study.best.kind == "last_look"


async def test_where_validation_users_are_against_the_pick_the_leader_is_looked_at(kit: Any, make_rig: MakeRig) -> None:
    rig = with_trials(make_rig, kit, searching(), [SEED | {"validation": 0.5}, DEAR, CHEAP | {"care": 1}])
    await rig.look_last()
    refused, leader = rig.study.trials[3:]
    assert (refused.accepted, refused.policy) == (False, kit.policy(1))
    assert "over the seed policy on validation" in refused.reason
    assert leader.kind == "last_look"
    assert leader.look.level < ALPHA_AT_THE_END


async def test_a_pick_whose_gain_is_one_readers_alone_is_refused(kit: Any, make_rig: MakeRig) -> None:
    rig = with_trials(make_rig, kit, searching(), [SEED, DEAR, CHEAP | {"care": 100}])
    first = rig.study.trials[0]
    first.validation["valid5"] = 1.0
    readers = {user: "slow" if user == "valid5" else "keen" for user in first.validation}
    rig.evaluator.cast = replace(rig.evaluator.cast, readers=readers)
    await rig.look_last()
    picked = next(trial for trial in rig.study.trials if trial.kind == "pick")
    assert picked.look.sure
    assert not picked.accepted
    assert "nothing is left of the gain over the seed policy without the users of keen" in picked.reason


async def test_a_pick_that_was_accepted_on_the_way_takes_no_call(kit: Any, make_rig: MakeRig) -> None:
    rows = [SEED, CHEAP | {"accepted": True, "validation": 0.8}, DEAR | {"accepted": True, "validation": 0.9}]
    rig = with_trials(make_rig, kit, searching(), rows)
    await rig.look_last()
    assert (rig.study.best.number, rig.study.best.policy) == (3, kit.policy(95))
    assert rig.study.best.validation == rig.study.trials[1].validation
    assert rig.pupil.requests == []


async def test_a_pick_that_is_the_best_already_changes_nothing(kit: Any, make_rig: MakeRig) -> None:
    rig = with_trials(make_rig, kit, searching(), [SEED, CHEAP | {"accepted": True, "validation": 0.8}])
    await rig.look_last()
    assert len(rig.study.trials) == 2
    assert rig.pupil.requests == []


async def test_where_train_users_decide_the_pick_is_accepted_without_a_look(kit: Any, make_rig: MakeRig) -> None:
    rows = [SEED, CHEAP, DEAR | {"accepted": True}]
    rig = with_trials(make_rig, kit, searching(acceptance="train"), rows)
    await rig.look_last()
    assert (rig.study.best.number, rig.study.best.policy, rig.study.best.look) == (3, kit.policy(95), None)
    assert rig.pupil.requests == []


async def test_where_nothing_is_surely_better_the_leader_is_looked_at(kit: Any, make_rig: MakeRig) -> None:
    rig = with_trials(make_rig, kit, searching(), [SEED, {"care": 100, "train": -0.1, "cost": 1}])
    await rig.look_last()
    assert [trial.number for trial in rig.study.trials] == [0, 1]


async def test_a_pick_is_looked_at_on_the_users_that_are_not_lost(kit: Any, make_rig: MakeRig) -> None:
    fails = lambda request: "This is valid5" in request.messages[-1].content  # noqa: E731
    pupil = kit.pupil(fails=fails, error=LanguageModelError("the line is dead"))
    rig = with_trials(make_rig, kit, searching(), [SEED, CHEAP], pupil=pupil)
    await rig.look_last()
    settled = rig.study.trials[2]
    assert (settled.kind, settled.accepted) == ("pick", True)
    assert set(settled.validation) == {f"valid{i}" for i in range(5)}


async def test_a_pick_that_is_the_leader_is_looked_at_once(kit: Any, make_rig: MakeRig) -> None:
    rig = with_trials(make_rig, kit, searching(), [SEED | {"validation": 0.5}, CHEAP | {"care": 1}])
    await rig.look_last()
    assert [trial.look.level for trial in rig.study.trials if trial.look] == [ALPHA_AT_THE_END]
    assert rig.study.best.number == 0


async def test_a_search_that_was_stopped_after_its_pick_failed_picks_no_other(kit: Any, make_rig: MakeRig) -> None:
    rows = [SEED | {"validation": 0.5}, DEAR, CHEAP | {"care": 1}, CHEAP | {"care": 2, "cost": 700}]
    rig = with_trials(make_rig, kit, searching(), rows)
    await rig.look_last()
    whole = [(trial.policy, trial.change) for trial in rig.study.trials]
    stopped = with_trials(make_rig, kit, searching(), rows)
    stopped.study.append(rig.study.trials[len(rows)])
    await stopped.look_last()
    assert [(trial.policy, trial.change) for trial in stopped.study.trials] == whole


async def test_what_validation_users_said_of_others_does_not_choose_the_pick(kit: Any, make_rig: MakeRig) -> None:
    """It is looked at on them: to choose by them would make its look too kind."""
    for score in (-0.5, 0.5):
        rig = with_trials(make_rig, kit, searching(), [SEED, DEAR, CHEAP | {"validation": score}])
        await rig.look_last()
        assert rig.study.trials[3].parent == 2


@pytest.mark.parametrize("objective", ["score-per-token", "score-per-call"])
async def test_a_whole_search_costs_its_policies_and_ends_with_one_that_is_better(
    kit: Any, make_rig: MakeRig, objective: str
) -> None:
    search = searching(objective, generations=3, candidates=2)
    rig = make_rig(search=search, splits=kit.splits(train=6, validation=8))
    await rig.run(kit.policy(20))
    await rig.look_last()
    raced = [trial for trial in rig.study.trials if trial.finished_race]
    assert all(trial.summary.per_turn.calls == 1.0 for trial in raced), "nothing is written"
    assert kit.care(rig.study.best.policy) > 20


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Stored:
    """What every memory holds."""
    held = Stored(lines=9, bytes=900, junk=0.5, duplicates=0.0, stale=math.nan)
    monkeypatch.setattr(Stored, "of", lambda *_: held)
    return held


async def searched(kit: Any, make_rig: MakeRig, **most: float) -> Any:
    pupil = kit.says(kit.reply(kit.policy(100).prompts.reply))
    rig = make_rig(search=searching("score", most_stored=most), pupil=pupil)
    await rig.run(kit.policy(0))
    await rig.look_last()
    return rig


@pytest.mark.usefixtures("full")
async def test_a_candidate_whose_memory_holds_too_much_is_dropped_and_never_leads(kit: Any, make_rig: MakeRig) -> None:
    rig = await searched(kit, make_rig, bytes=899, junk=0.4, stale=0)
    (candidate,) = (trial for trial in rig.study.trials if trial.kind == "candidate")
    assert candidate.score > rig.study.trials[0].score
    assert candidate.over == "bytes 900 of at most 899, junk 0.5 of at most 0.4"
    assert candidate.reason == f"memory holds too much: {candidate.over}"
    assert (candidate.ahead, candidate.look) == (False, None)
    assert rig.study.best.number == leader(rig.study.trials).number == 0


async def test_a_candidate_need_not_beat_a_parent_that_holds_too_much(
    kit: Any, make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [Stored(lines=9, bytes=900, junk=0.5, duplicates=0.0, stale=0.0)]
    monkeypatch.setattr(Stored, "of", lambda *_: held[-1])

    def then_less(trial: Any) -> None:
        if trial.number == 1:
            held.append(replace(held[0], bytes=100))

    cares = iter([80, 60])
    rig = make_rig(
        search=searching("score", most_stored={"bytes": 500}, generations=2, seed=4),
        pupil=kit.says(lambda _: kit.reply(kit.policy(next(cares)).prompts.reply)),
        tell=then_less,
    )
    await rig.run(kit.policy(0))
    full, slim = (trial for trial in rig.study.trials if trial.kind == "candidate")
    assert (full.over != "", slim.over, slim.parent) == (True, "", full.number)
    assert rig.study.trials[0].score < slim.score < full.score
    assert slim.ahead
    assert leader(rig.study.trials).number == slim.number


@pytest.mark.usefixtures("full")
async def test_a_candidate_within_the_limits_is_judged_as_without_them(kit: Any, make_rig: MakeRig) -> None:
    within, free = await searched(kit, make_rig, lines=9, junk=0.5), await searched(kit, make_rig)
    assert within.study.trials == free.study.trials
    assert within.study.best.number > 0
