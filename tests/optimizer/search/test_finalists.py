"""Finalists of a search.

1. They are the leader and what train users cannot tell from it, above the seed policy, each policy and behaviour once.
2. Once the leader is accepted they are looked at in turn, at its level, until one is not surely better than the seed
   policy; what is better on train and validation users together is accepted. Each is played once, also when the run is
   stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mnemotune.optimizer.search.acceptance import ALPHA_AT_THE_END
from mnemotune.optimizer.search.finalists import MOST, finalists, over_all
from mnemotune.policies.lm import EndpointDown

MakeRig = Callable[..., Any]


def users(values: Sequence[float], kind: str = "train") -> dict[str, float]:
    return {f"{kind}{i}": value for i, value in enumerate(values)}


def trials_of(kit: Any, *trains: Sequence[float]) -> list[Any]:
    """Make a search's trials of train scores, the seed policy's first; each has a policy of its own."""
    return [kit.trial(i, policy=kit.policy(10 * i), train=users(train)) for i, train in enumerate(trains)]


LEADER = (0.9, 0.5, 0.8, 0.6)
POOR = (0.1, 0.1, 0.2, 0.2)


def test_what_train_users_cannot_tell_from_the_leader_is_a_finalist_invariant_1(kit: Any) -> None:
    tied, worse = (0.5, 0.9, 0.7, 0.5), (0.7, 0.3, 0.6, 0.4)
    trials = trials_of(kit, POOR, worse, tied, LEADER)
    assert finalists(trials) == [trials[3], trials[2]]


def test_where_the_seed_policy_leads_or_nothing_is_tied_the_leader_is_alone_invariant_1(kit: Any) -> None:
    trials = trials_of(kit, LEADER, (0.5, 0.9, 0.6, 0.6))
    assert finalists(trials) == [trials[0]], "what is not above the seed policy is no finalist"
    trials = trials_of(kit, POOR, LEADER)
    assert finalists(trials) == [trials[1]]


def test_what_does_the_same_on_every_train_user_counts_once_invariant_1(kit: Any) -> None:
    trials = trials_of(kit, POOR, LEADER, LEADER, (0.5, 0.9, 0.7, 0.5))
    again = kit.trial(4, policy=trials[3].policy, train=users((0.6, 0.9, 0.7, 0.5)))
    assert [trial.number for trial in finalists([*trials, again])] == [1, 4]


def test_there_are_no_more_than_a_few_finalists_the_best_on_train_users_invariant_1(kit: Any) -> None:
    trials = trials_of(kit, POOR, LEADER, *((0.5, 0.9, 0.7, 0.4 + i / 100) for i in range(5)))
    assert [trial.number for trial in finalists(trials)] == [1, 6, 5][:MOST]


def test_all_users_count_as_much_invariant_2(kit: Any) -> None:
    trial = kit.trial(1, train=users(LEADER), validation=users((0.1, 0.1), "valid"))
    other = kit.trial(2, train=users(POOR), validation=users((0.3, 0.3), "valid"))
    assert over_all(trial, other) == pytest.approx(((2.8 + 0.2) / 6, (0.6 + 0.6) / 6))


def test_a_hard_user_whose_episode_failed_is_missing_on_both_sides_invariant_2(kit: Any) -> None:
    trial = kit.trial(1, train=users((0.6, 0.6)), validation=users((0.4, math.nan), "valid"))
    other = kit.trial(2, train=users((0.62, 0.62)), validation=users((0.42, 0.1), "valid"))
    ours, theirs = over_all(trial, other)
    assert ours < theirs


def tied_on_train(kit: Any, rig: Any, *quality: int) -> None:
    """Give a search a poor seed, a leader, and policies that are tied with it; each knows so much."""
    rig.study.append(kit.trial(0, policy=kit.policy(0), train=users(POOR), validation=users([0.1] * 12, "valid")))
    for i, (known, train) in enumerate(zip(quality, (LEADER, *TIED), strict=False)):
        rig.study.append(kit.trial(1 + i, policy=kit.policy(known), train=users(train)))


TIED = ((0.5, 0.9, 0.7, 0.5), (0.5, 0.9, 0.7, 0.4))


@pytest.mark.parametrize(
    ("quality", "accepted"),
    [
        ((90, 100), [True, True]),
        ((100, 90), [True, False]),
        ((90, 100, 95), [True, True, False]),
        ((90, 1, 100), [True, False]),
        ((1, 100), [False]),
    ],
    ids=["better", "worse", "two", "not surely better than the seed policy ends it", "the leader is refused"],
)
async def test_of_what_is_tied_with_an_accepted_leader_the_best_on_all_users_wins_invariant_2(
    kit: Any, make_rig: MakeRig, quality: Sequence[int], accepted: Sequence[bool]
) -> None:
    rig = make_rig(splits=kit.splits(validation=12))
    tied_on_train(kit, rig, *quality)
    known = len(rig.study.trials)
    await rig.look_last()
    ended = rig.study.trials[known:]
    assert [trial.accepted for trial in ended] == accepted, [trial.reason for trial in ended]
    assert [trial.kind for trial in ended] == ["last_look", *["finalist"] * (len(accepted) - 1)]
    assert {trial.look.level for trial in ended} == {ALPHA_AT_THE_END}
    assert all(trial.ledger.total.calls > 0 == trial.calls for trial in ended)
    assert all("on train and validation users together" in trial.reason for trial in ended[1:])
    asked = len(rig.pupil.requests)
    await rig.look_last()
    assert (rig.study.trials[known:], len(rig.pupil.requests)) == (ended, asked)


@pytest.mark.parametrize("calls", [0, 150, 300])
async def test_finalists_that_were_stopped_go_on_where_they_stood_invariant_2(
    kit: Any, make_rig: MakeRig, storage: str, calls: int
) -> None:
    splits, left = kit.splits(validation=12), iter(range(calls))
    whole = make_rig(splits=splits)
    tied_on_train(kit, whole, 90, 100, 95)
    await whole.look_last()
    pupil = kit.pupil(fails=lambda _: next(left, None) is None, error=EndpointDown("start the server"))
    stopped = make_rig(splits=splits, pupil=pupil, storage=storage)
    tied_on_train(kit, stopped, 90, 100, 95)
    with pytest.raises(EndpointDown):
        await stopped.look_last()
    again = make_rig(splits=splits, storage=storage)
    await again.look_last()
    told = [[kit.told(trial, spend=False) for trial in rig.study.trials] for rig in (again, whole)]
    assert told[0] == told[1]
