"""The arena: races against the parent on the same train users, and validation on users of its own.

Invariants:
1. A race sees train users only, validation sees validation users only, and no test user is ever seen.
2. A race that is not finished keeps no summary and no evidence; a finished one has a score (or NaN) for every user.
3. Of two runs on the same users at most one has lost to the other, and none to itself.
4. Whether a race is lost depends on the users that both have a score for, not on their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.optimizer.arena import Arena, Race, compare, has_lost, joined, summarise, told
from mnemotune.policies.lm import BudgetExhausted, Limits, Metered
from mnemotune.policies.lm.budget import Budget

NAN = math.nan
USERS = tuple("abcdefghij")

runs = st.dictionaries(st.sampled_from(USERS), st.integers(-8, 8).map(lambda value: value / 8) | st.just(NAN))


def arena_of(kit: Any, pupil: Any, *, splits: Any = None, seed: int = 0, block: int = 4, heard: Any = None) -> Arena:
    heard = [] if heard is None else heard
    return Arena(splits or kit.splits(), kit.evaluator(pupil), seed=seed, block=block, done=heard.append)


def parent_with(kit: Any, score: float, users: int = 8) -> Any:
    return kit.trial(train={f"train{i}": score for i in range(users)})


async def test_a_race_runs_on_the_train_users_only_invariant_1(kit: Any) -> None:
    pupil, heard = kit.pupil(), []
    race = await arena_of(kit, pupil, heard=heard).race(kit.policy(), None)
    assert sorted(race.scores) == ["train0", "train1", "train2", "train3"]
    assert sorted(episode.user for episode in heard) == sorted(race.scores)
    assert not pupil.heard("valid")
    assert not pupil.heard("sealed")


async def test_validation_runs_on_the_validation_users_only_invariant_1(kit: Any) -> None:
    pupil, heard = kit.pupil(), []
    evaluation = await arena_of(kit, pupil, heard=heard).validate(kit.policy())
    assert [user.user for user in evaluation.users] == ["valid0", "valid1", "valid2", "valid3"]
    assert [episode.user for episode in heard] == list(evaluation.by_user)
    assert not pupil.heard("train")
    assert not pupil.heard("sealed")


async def test_a_finished_race_has_every_score_a_summary_and_evidence_invariant_2(kit: Any) -> None:
    arena = arena_of(kit, kit.pupil())
    race = await arena.race(kit.policy(50), None)
    evaluation = await kit.evaluator(kit.pupil()).evaluate(kit.policy(50), kit.splits().train)
    assert race.finished
    assert race.scores == evaluation.by_user
    assert race.summary == summarise(evaluation)
    assert set(race.summary) == {"accuracy", "upper_bound", "memory_score", "shares", "failures"}
    assert race.summary["accuracy"] + sum(race.summary["shares"].values()) == pytest.approx(1)
    assert race.evidence
    assert all("train" in evidence.text for evidence in race.evidence)


async def test_a_race_that_is_being_lost_stops_after_its_block_invariant_2(kit: Any) -> None:
    pupil, heard = kit.pupil(), []
    arena = arena_of(kit, pupil, splits=kit.splits(train=8), block=4, heard=heard)
    race = await arena.race(kit.policy(0), parent_with(kit, 1.0))
    assert race == Race(race.scores, finished=False, summary={}, evidence=())
    assert len(race.scores) == 4
    assert len(heard) == 4
    assert all(score < 1.0 for score in race.scores.values())


async def test_a_race_that_is_lost_in_its_last_block_is_finished_invariant_2(kit: Any) -> None:
    """Every user is paid for by then, so the figures are kept."""
    arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=4), block=4)
    race = await arena.race(kit.policy(0), parent_with(kit, 1.0, users=4))
    assert race.finished
    assert race.summary


async def test_a_race_that_is_not_being_lost_goes_on_to_the_end(kit: Any) -> None:
    arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=8), block=3)
    race = await arena.race(kit.policy(100), parent_with(kit, 0.0))
    assert race.finished
    assert race.scores == {f"train{i}": 1.0 for i in range(8)}


async def test_a_race_is_paired_by_user_not_by_place(kit: Any) -> None:
    """The parent did well on the users of the first block only, told in another order than the race's."""
    order: list[Any] = []
    arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=8), block=4, heard=order)
    await arena.race(kit.policy(100), None)
    first = [episode.user for episode in order[:4]]
    rest = sorted({f"train{i}" for i in range(8)} - set(first))
    lost = kit.trial(train=dict.fromkeys(rest, -3.0) | dict.fromkeys(first, 2.0))
    won = kit.trial(train=dict.fromkeys(rest, 2.0) | dict.fromkeys(first, -3.0))
    assert len((await arena.race(kit.policy(100), lost)).scores) == 4
    assert len((await arena.race(kit.policy(100), won)).scores) == 8


async def test_the_seeds_race_is_never_cut_short(kit: Any) -> None:
    arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=8), block=2)
    race = await arena.race(kit.policy(0), None)
    assert race.finished
    assert len(race.scores) == 8


async def test_the_order_of_a_race_depends_on_its_seed_alone(kit: Any) -> None:
    orders = []
    for seed, care in [(0, 10), (0, 90), (1, 10)]:
        arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=12), seed=seed)
        orders.append(list((await arena.race(kit.policy(care), None)).scores))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


async def test_the_same_race_picks_the_same_evidence(kit: Any) -> None:
    one, same = [
        await arena_of(kit, kit.pupil(), splits=kit.splits(train=8)).race(kit.policy(20), None) for _ in range(2)
    ]
    assert len(one.evidence) >= 8
    assert one.evidence == same.evidence


async def test_the_size_of_a_block_does_not_change_a_finished_race(kit: Any) -> None:
    parent, splits = parent_with(kit, -3.0), kit.splits(train=8)
    one, other = [
        await arena_of(kit, kit.pupil(), splits=splits, block=block).race(kit.policy(30), parent) for block in (3, 8)
    ]
    assert one == other


async def test_an_episode_that_failed_has_no_score_and_is_told_in_the_summary(kit: Any) -> None:
    pupil = kit.pupil(fails=lambda request: any("train2" in message.content for message in request.messages))
    race = await arena_of(kit, pupil).race(kit.policy(), None)
    assert race.finished
    assert {user for user, score in race.scores.items() if math.isnan(score)} == {"train2"}
    assert race.summary["failures"] == [{"user": "train2", "reason": "the line is dead"}]


async def test_a_budget_that_ends_in_a_race_is_told(kit: Any) -> None:
    model = Metered(kit.pupil(), budget=Budget(Limits(calls=30)))
    with pytest.raises(BudgetExhausted):
        await arena_of(kit, model).race(kit.policy(), None)
    assert model.ledger.total.calls <= 30


async def test_blocks_put_together_are_as_if_evaluated_at_once(kit: Any) -> None:
    users, evaluator = kit.splits(train=5).train, kit.evaluator(kit.pupil())
    whole = await evaluator.evaluate(kit.policy(), users)
    parts = joined([await evaluator.evaluate(kit.policy(), part) for part in (users[:2], users[2:])])
    assert parts.by_user == whole.by_user
    assert [episode.user for episode in parts.episodes] == [user.id for user in users]
    assert summarise(parts) == summarise(whole)


@given(a=runs, b=runs)
def test_at_most_one_of_two_has_lost_invariant_3(a: Mapping[str, float], b: Mapping[str, float]) -> None:
    assert not (has_lost(a, b) and has_lost(b, a))
    assert not has_lost(a, a)


@given(a=runs, b=runs, data=st.data())
def test_a_loss_depends_neither_on_the_order_nor_on_users_without_a_pair_invariant_4(
    a: dict[str, float], b: dict[str, float], data: st.DataObject
) -> None:
    common = sorted(user for user in a.keys() & b.keys() if not math.isnan(a[user]) and not math.isnan(b[user]))
    shuffled = data.draw(st.permutations(common))
    assert has_lost(a, b) == has_lost({u: a[u] for u in common}, {u: b[u] for u in shuffled})


@pytest.mark.parametrize(
    ("parent", "scores", "lost"),
    [
        ([1, 1, 1, 1], [0, 0, 0, 0], True),
        ([1, 1, 1], [0, 0, 0], False),
        ([0, 0, 0, 0], [1, 1, 1, 1], False),
        ([1, 1, 1, 1], [0, 0, 0, NAN], False),
        ([1, 1, 1, 1, NAN], [0, 0, 0, 0, 1], True),
        ([1], [0], False),
        ([], [], False),
        ([0.5] * 8, [0.4, 0.6] * 4, False),
        ([0.9, 0.2, 0.7, 0.4, 0.6, 0.5], [0.7, 0.1, 0.4, 0.5, 0.2, 0.0], True),
    ],
    ids=lambda values: repr(values),
)
def test_a_race_is_lost_when_the_signed_ranks_say_so(parent: list[float], scores: list[float], lost: bool) -> None:
    """Three users are never enough: the smallest possible p-value is 1/8."""
    of = lambda values: dict(zip(USERS, values, strict=False))  # noqa: E731
    assert has_lost(of(parent), of(scores)) is lost


def test_a_race_of_strangers_is_not_lost() -> None:
    assert not has_lost(dict.fromkeys("abcdef", 1.0), dict.fromkeys("ghijkl", 0.0))


@given(a=runs, b=runs)
def test_a_comparison_is_the_mean_of_the_differences_and_turns_its_sign_with_its_sides(
    a: dict[str, float], b: dict[str, float]
) -> None:
    gains = [a[u] - b[u] for u in a.keys() & b.keys() if not math.isnan(a[u] - b[u])]
    one, other = compare(a, b), compare(b, a)
    assert one.users == other.users == len(gains)
    if gains:
        assert one.mean == pytest.approx(sum(gains) / len(gains))
        assert one.mean == pytest.approx(-other.mean)
    if len(gains) > 1:
        assert one.low <= one.mean <= one.high
        assert one.low == pytest.approx(-other.high)


def test_a_difference_is_told_with_its_sign_and_interval() -> None:
    assert told(compare({"a": 1.0, "b": 1.0}, {"a": 0.5, "b": 0.5})) == "+0.500 [+0.500, +0.500]"
    assert told(compare({"a": 0.0, "b": 0.0}, {"a": 0.5, "b": 0.5})) == "-0.500 [-0.500, -0.500]"
    assert told(compare({"a": 0.5}, {"a": 0.7})) == "-0.200", "one user makes no interval"
    assert told(compare({"a": 0.5, "b": 0.5}, {"a": 0.5001, "b": 0.5001})) == "+0.000 [+0.000, +0.000]"


async def test_a_model_that_is_gone_makes_every_episode_fail_not_the_race(kit: Any) -> None:
    race = await arena_of(kit, kit.pupil(fails=lambda _: True)).race(kit.policy(), None)
    assert race.finished
    assert all(math.isnan(score) for score in race.scores.values())
    assert len(race.summary["failures"]) == 4
    assert race.evidence == ()
