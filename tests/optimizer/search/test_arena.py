"""The arena: races against rivals on the same train users, in rungs, and looks at users of their own.

Invariants:
1. A race sees train users only, validation sees validation users only, and no test user is ever seen.
2. A race that is not finished keeps no summary and no evidence; a finished one has a score (or NaN) for every user.
3. No policy meets a train user twice before its race is over, however its race goes on, and whatever of it was played.
4. A finished race is what one evaluation on all train users gives, whatever its rungs.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data.splits import Splits
from mnemotune.data.task import tasks_of
from mnemotune.env import Summary
from mnemotune.env.episode import complete
from mnemotune.optimizer.search.acceptance import slices_of
from mnemotune.optimizer.search.arena import Arena, joined, mean_scores
from mnemotune.policies.lm import BudgetExhausted, Limits, Metered
from mnemotune.policies.lm.budget import Budget

NAN = math.nan
PERIODS = 6
"""Of which a race's first rung sees two."""


def arena_of(
    kit: Any, pupil: Any, *, splits: Any = None, seed: int = 0, block: int = 4, racing: bool = True, heard: Any = None
) -> Arena:
    done = [].append if heard is None else heard.append
    return Arena(splits or kit.splits(), kit.evaluator(pupil), seed=seed, block=block, racing=racing, done=done)


def lives_of(kit: Any, users: int, *, periods: int = PERIODS) -> Any:
    return kit.splits(train=users, sessions=(1,) * periods)


def rival_with(kit: Any, score: float, users: int = 8, *, number: int = 0, periods: int = PERIODS) -> Any:
    names = [f"train{i}" for i in range(users)]
    series = dict.fromkeys(names, (score,) * periods)
    return kit.trial(number, train=dict.fromkeys(names, score), series=series)


def played_by(pupil: Any) -> Counter[str]:
    """Count the calls of each user's life, upper bounds aside."""
    users = [f"train{i}" for i in range(16)]
    return Counter(
        user
        for request in pupil.requests
        if request.role != "upper_bound"
        for user in users
        if any(f"This is {user}." in message.content for message in request.messages)
    )


# Races


async def test_a_race_runs_on_the_train_users_only_invariant_1(kit: Any) -> None:
    pupil, heard = kit.pupil(), []
    race = await arena_of(kit, pupil, heard=heard).race(kit.policy(), [])
    assert sorted(race.scores) == ["train0", "train1", "train2", "train3"]
    assert sorted(episode.task for episode in heard) == sorted(race.scores)
    assert not pupil.heard("valid")
    assert not pupil.heard("sealed")


async def test_a_finished_race_has_every_score_a_summary_and_evidence_invariant_2(kit: Any) -> None:
    race = await arena_of(kit, kit.pupil()).race(kit.policy(50), [])
    evaluation = await kit.evaluator(kit.pupil()).evaluate(kit.policy(50), tasks_of(kit.splits().train))
    assert race.finished
    assert race.scores == evaluation.by_group
    assert {user: len(scores) for user, scores in race.series.items()} == dict.fromkeys(race.scores, 2)
    assert race.scores == mean_scores(race.series)
    assert race.summary == Summary.of(joined([evaluation]), name=kit.policy(50).label)
    assert race.summary.accuracy + sum(race.summary.shares.values()) == pytest.approx(1)
    assert race.evidence
    assert all(evidence.group in evidence.text for evidence in race.evidence)


async def test_a_race_that_is_lost_on_the_first_periods_keeps_no_summary_invariant_2(kit: Any) -> None:
    """Four users are enough for the signed ranks; nobody's life is played to its end."""
    heard: list[Any] = []
    arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 8), heard=heard)
    race = await arena.race(kit.policy(0), [rival_with(kit, 1.0)])
    assert race == replace(race, scores={}, failures={}, finished=False, outrun=False, summary=None, evidence=())
    assert [len(scores) for scores in race.series.values()] == [2] * 4
    assert heard == []


@pytest.mark.parametrize(
    ("gains", "block", "users"),
    [
        ([0.1, 0.0, 0.1, 0.0] * 2, 4, 8),
        ([0.1, -0.1, 0.1, -0.1] * 2, 4, 8),
        ([0.1, -0.2, 0.1, -0.1] * 2, 4, 4),
        ([0.0] * 8, 4, 4),
        ([-0.1] * 8, 3, 6),
        ([-0.1] * 8, 1, 4),
    ],
)
async def test_who_is_not_likely_to_lead_when_half_of_the_users_are_over_is_left_invariant_2(
    kit: Any, gains: list[float], block: int, users: int
) -> None:
    """Its score is 1 for every user. Until half of them are over only the signed ranks count, of four users or more."""
    heard: list[Any] = []
    arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 8), block=block, heard=heard)
    order = list((await arena.race(kit.policy(99), [])).scores)
    train = {user: 1.0 - gain for user, gain in zip(order, gains, strict=True)}
    # on the first periods nothing is lost
    series = {user: (0.0, 0.0, *(score + score / 2,) * 4) for user, score in train.items()}
    heard.clear()
    race = await arena.race(kit.policy(100), [kit.trial(train=train, series=series)])
    assert race.finished is (race.summary is not None) is (users == 8)
    assert race.scores == dict.fromkeys(order[:users], 1.0)
    assert len(heard) == users
    assert [len(scores) for scores in race.series.values()] == [PERIODS] * users


@pytest.mark.parametrize(("score", "users"), [(0.9, 2), (1.0, 1), (1.1, 1)])
async def test_where_one_user_is_half_of_them_a_lead_there_is_enough(kit: Any, score: float, users: int) -> None:
    """One user makes no p."""
    arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 2), block=1)
    race = await arena.race(kit.policy(100), [rival_with(kit, score, users=2)])
    assert len(race.scores) == users


async def test_a_race_is_lost_to_any_of_its_rivals(kit: Any) -> None:
    weak, strong = rival_with(kit, -3.0), rival_with(kit, 1.5, number=1)
    for rivals, finished in (([weak], True), ([strong], False), ([weak, strong], False), ([strong, weak], False)):
        arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 8))
        assert (await arena.race(kit.policy(100), rivals)).finished is finished


async def test_on_the_first_periods_a_rivals_first_periods_count(kit: Any) -> None:
    """A rival that did badly at first, and well later, is met on even terms."""
    users = [f"train{i}" for i in range(8)]
    late = kit.trial(train=dict.fromkeys(users, 1.0), series=dict.fromkeys(users, (-1.0, -1.0, 2.0, 2.0, 2.0, 2.0)))
    early = kit.trial(train=dict.fromkeys(users, 1.0), series=dict.fromkeys(users, (2.0, 2.0, 0.5, 0.5, 0.5, 0.5)))
    lengths = {}
    for name, rival in (("late", late), ("early", early)):
        race = await arena_of(kit, kit.pupil(), splits=lives_of(kit, 8)).race(kit.policy(100), [rival])
        lengths[name] = [len(scores) for scores in race.series.values()]
    assert lengths == {"late": [PERIODS] * 4, "early": [2] * 4}


async def test_a_race_that_is_lost_on_the_last_users_is_finished_invariant_2(kit: Any) -> None:
    """Every user is paid for by then, so the figures are kept."""
    arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=4), block=4)
    race = await arena.race(kit.policy(0), [rival_with(kit, 1.0, users=4)])
    assert race.finished
    assert race.summary


async def test_a_race_that_is_not_being_lost_goes_on_to_the_end(kit: Any) -> None:
    arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 8), block=3)
    race = await arena.race(kit.policy(100), [rival_with(kit, 0.0)])
    assert race.finished
    assert race.scores == {f"train{i}": 1.0 for i in range(8)}


async def test_a_race_is_paired_by_user_not_by_place(kit: Any) -> None:
    """The rival did well on the users of the first rung only, told in another order than the race's."""
    arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=8), block=4)
    first = list((await arena.race(kit.policy(100), [])).scores)[:4]
    rest = sorted({f"train{i}" for i in range(8)} - set(first))
    lost = kit.trial(train=dict.fromkeys(rest, -3.0) | dict.fromkeys(first, 2.0))
    won = kit.trial(train=dict.fromkeys(rest, 2.0) | dict.fromkeys(first, -3.0))
    assert len((await arena.race(kit.policy(100), [lost])).series) == 4
    assert len((await arena.race(kit.policy(100), [won])).series) == 8


@pytest.mark.parametrize("racing", [True, False])
async def test_the_seeds_race_is_never_cut_short_and_none_is_without_racing(kit: Any, racing: bool) -> None:
    rivals = [] if racing else [rival_with(kit, 1.0)]
    arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 8), block=2, racing=racing)
    race = await arena.race(kit.policy(0), rivals)
    assert race.finished
    assert len(race.scores) == 8


@settings(deadline=None, max_examples=25)
@given(
    block=st.integers(1, 9),
    care=st.sampled_from([0, 40, 70, 100]),
    periods=st.integers(1, 7),
    users=st.integers(1, 7),
    rival=st.floats(-0.5, 1.0),
    racing=st.booleans(),
)
async def test_no_user_is_met_twice_within_a_race_and_a_finished_one_is_whole_invariants_2_3_4(
    kit: Any, block: int, care: int, periods: int, users: int, rival: float, racing: bool
) -> None:
    pupil, alone, heard = kit.pupil(), kit.pupil(), []
    splits = lives_of(kit, users, periods=periods)
    arena = arena_of(kit, pupil, splits=splits, block=block, racing=racing, heard=heard)
    race = await arena.race(kit.policy(care), [rival_with(kit, rival, users, periods=periods)])
    whole = await kit.evaluator(alone).evaluate(kit.policy(care), tasks_of(splits.train))
    full = played_by(alone)
    assert all(calls <= full[user] for user, calls in played_by(pupil).items())
    assert set(Counter(episode.task for episode in heard).values()) <= {1}
    series = {group.group: tuple(stage.memory_score for stage in group.stages) for group in whole.groups}
    assert all(scores == series[user][: len(scores)] for user, scores in race.series.items())
    assert race.finished is (race.summary is not None)
    if race.finished:
        assert race.scores == whole.by_group
        assert race.summary == Summary.of(joined([whole]), name=kit.policy(care).label)
        assert played_by(pupil) == full
    else:
        assert racing
        assert race.evidence == ()


async def test_lives_of_different_lengths_are_raced_together_invariant_3(kit: Any) -> None:
    """The first rung's periods are those of the longest life, of which a short one has fewer."""
    short, long = kit.splits(train=2, sessions=(1,)), kit.splits(train=4, sessions=(1,) * 6)
    splits = Splits(short.train + long.train[2:], long.validation, long.test)
    pupil, alone, heard = kit.pupil(), kit.pupil(), []
    arena = arena_of(kit, pupil, splits=splits, block=3, heard=heard)
    race = await arena.race(kit.policy(100), [rival_with(kit, 0.0, users=4)])
    await kit.evaluator(alone).evaluate(kit.policy(100), tasks_of(splits.train))
    assert race.finished
    assert {user: len(scores) for user, scores in race.series.items()} == {
        "train0": 1, "train1": 1, "train2": 6, "train3": 6
    }  # fmt: skip
    assert played_by(pupil) == played_by(alone)
    assert sorted(episode.task for episode in heard) == ["train0", "train1", "train2", "train3"]


async def test_another_race_of_the_same_policy_begins_anew(kit: Any) -> None:
    pupil = kit.pupil()
    arena = arena_of(kit, pupil, splits=lives_of(kit, 8))
    races = [await arena.race(kit.policy(0), [rival_with(kit, 1.0)]) for _ in range(2)]
    assert races[0] == races[1]
    assert all(calls % 2 == 0 for calls in played_by(pupil).values())


async def test_an_episode_that_failed_has_no_score_and_is_told(kit: Any) -> None:
    pupil = kit.pupil(fails=lambda request: any("train2" in message.content for message in request.messages))
    race = await arena_of(kit, pupil).race(kit.policy(), [])
    assert race.finished
    assert {user for user, score in race.scores.items() if math.isnan(score)} == {"train2"}
    assert race.series["train2"] == ()
    assert race.failures == {"train2": "the line is dead"}
    assert race.summary.failures == {"train2": "the line is dead"}


async def test_a_model_that_is_gone_makes_every_episode_fail_not_the_race(kit: Any) -> None:
    race = await arena_of(kit, kit.pupil(fails=lambda _: True)).race(kit.policy(), [])
    assert race.finished
    assert all(math.isnan(score) for score in race.scores.values())
    assert len(race.failures) == len(race.summary.failures) == 4
    assert race.evidence == ()


async def test_who_fails_everywhere_has_lost_when_the_first_users_are_over_and_says_why(kit: Any) -> None:
    """Failed episodes are gone on with in no rung."""
    pupil = kit.pupil(fails=lambda request: request.role == "reply")
    arena = arena_of(kit, pupil, splits=lives_of(kit, 8))
    race = await arena.race(kit.policy(), [rival_with(kit, 0.5)])
    assert (race.finished, race.summary) == (False, None)
    assert [*race.failures.values()] == ["the line is dead"] * 4
    assert len(pupil.asked("reply")) == 4


async def test_a_budget_that_ends_in_a_race_is_told(kit: Any) -> None:
    pupil = kit.pupil()
    with pytest.raises(BudgetExhausted):
        await arena_of(kit, Metered(pupil, budget=Budget(Limits(calls=30)))).race(kit.policy(), [])
    assert len(pupil.requests) <= 30


async def test_the_same_race_picks_the_same_evidence(kit: Any) -> None:
    one, same = [
        await arena_of(kit, kit.pupil(), splits=kit.splits(train=8)).race(kit.policy(20), []) for _ in range(2)
    ]
    assert len(one.evidence) >= 8
    assert one.evidence == same.evidence


# The order of users


async def test_before_the_seed_is_known_the_order_depends_on_the_searchs_seed_alone(kit: Any) -> None:
    orders = []
    for seed, care in [(0, 10), (0, 90), (1, 10)]:
        arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=12), seed=seed)
        orders.append(list((await arena.race(kit.policy(care), [])).scores))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


async def test_users_of_middling_difficulty_to_the_seed_come_first_and_unknown_ones_last(kit: Any) -> None:
    arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=6))
    arena.order({"train0": 0.0, "train1": 0.5, "train2": 1.0, "train3": NAN, "train4": 0.6, "train5": 0.3})
    order = list((await arena.race(kit.policy(), [])).scores)
    assert order[:3] == ["train1", "train4", "train5"]
    assert sorted(order[3:5]) == ["train0", "train2"]
    assert order[5] == "train3"


@settings(deadline=None, max_examples=30)
@given(scores=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, NAN]), max_size=6), seed=st.integers(0, 5))
async def test_the_order_is_the_same_when_it_is_put_again_and_loses_nobody(
    kit: Any, scores: list[float], seed: int
) -> None:
    """A run that goes on orders its users anew."""
    known = {f"train{i}": score for i, score in enumerate(scores)}
    orders = []
    for times in (1, 2):
        arena = arena_of(kit, kit.pupil(), splits=kit.splits(train=6, sessions=(0,)), seed=seed)
        for _ in range(times):
            arena.order(known)
        orders.append(list((await arena.race(kit.policy(), [])).scores))
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == [f"train{i}" for i in range(6)]


# Playing


async def test_what_was_played_is_told_by_user_and_not_played_again_invariant_3(kit: Any) -> None:
    pupil, alone, heard = kit.pupil(), kit.pupil(), []
    arena = arena_of(kit, pupil, splits=lives_of(kit, 8), heard=heard)
    played = await arena.play(kit.policy(40), ["train3", "train5", "train3"])
    again = await arena.play(kit.policy(40), ["train5"])
    assert [*played] == ["train3", "train5"]
    assert again == {"train5": played["train5"]}
    race = await arena.race(kit.policy(40), [])
    whole = await kit.evaluator(alone).evaluate(kit.policy(40), tasks_of(lives_of(kit, 8).train))
    assert {user: one.score for user, one in played.items()} == {user: race.scores[user] for user in played}
    assert all(one.evidence and {e.group for e in one.evidence} == {user} for user, one in played.items())
    assert race.scores == whole.by_group
    assert played_by(pupil) == played_by(alone)
    assert Counter(episode.task for episode in heard) == dict.fromkeys(race.scores, 1)


async def test_the_race_of_another_policy_leaves_what_was_played_invariant_3(kit: Any) -> None:
    pupil = kit.pupil()
    arena = arena_of(kit, pupil, splits=lives_of(kit, 8))
    users = [f"train{i}" for i in range(8)]
    first = await arena.play(kit.policy(40), users)
    await arena.race(kit.policy(0), [rival_with(kit, 1.0)])
    asked = len(pupil.requests)
    assert await arena.play(kit.policy(40), users) == first
    assert len(pupil.requests) == asked


async def test_of_a_user_that_was_played_whole_a_lost_race_tells_the_first_periods_alone(kit: Any) -> None:
    """So that all its series are as long."""
    arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 8))
    await arena.play(kit.policy(0), [f"train{i}" for i in range(8)])
    race = await arena.race(kit.policy(0), [rival_with(kit, 1.0)])
    assert [len(scores) for scores in race.series.values()] == [2] * 4


async def test_a_user_whose_episode_failed_was_played_without_a_score(kit: Any) -> None:
    pupil = kit.pupil(fails=lambda request: any("train1" in message.content for message in request.messages))
    played = await arena_of(kit, pupil).play(kit.policy(), ["train1", "train2"])
    assert math.isnan(played["train1"].score)
    assert not math.isnan(played["train2"].score)
    assert played["train1"].evidence == ()


# Looks


async def test_validation_runs_on_the_validation_users_only_invariant_1(kit: Any) -> None:
    pupil, heard = kit.pupil(), []
    found = await arena_of(kit, pupil, heard=heard).validate(kit.policy())
    assert [*found.scores] == ["valid0", "valid1", "valid2", "valid3"]
    assert [episode.task for episode in heard] == [*found.scores]
    assert not pupil.heard("train")
    assert not pupil.heard("sealed")


async def test_a_whole_look_is_one_evaluation(kit: Any) -> None:
    splits = kit.splits(validation=5, sessions=(1, 1, 1))
    whole = await kit.evaluator(kit.pupil()).evaluate(kit.policy(60), tasks_of(splits.validation))
    worse = kit.trial(validation=dict.fromkeys(whole.by_group, -2.0))
    for best in (None, worse):
        found = await arena_of(kit, kit.pupil(), splits=splits).validate(kit.policy(60), best)
        assert found.finished
        assert found.scores == whole.by_group
        assert found.failures == {}
        assert found.headroom == pytest.approx(whole.mean("ceiling") - whole.mean("floor"))
        assert found.slices == slices_of(whole, tasks_of(splits.validation), stage_noun="period")


@pytest.mark.parametrize(("score", "seen"), [(1.5, 3), (1.0, 3), (0.9, 6)])
async def test_who_is_no_better_on_half_of_the_users_is_left(kit: Any, score: float, seen: int) -> None:
    pupil, splits = kit.pupil(), kit.splits(validation=6)
    best = kit.trial(validation={f"valid{i}": score for i in range(6)})
    found = await arena_of(kit, pupil, splits=splits).validate(kit.policy(100), best)
    assert found.finished is (seen == 6)
    assert [*found.scores] == [f"valid{i}" for i in range(seen)]
    assert pupil.heard("valid3") is (seen == 6)


@pytest.mark.parametrize("users", [2, 3])
async def test_of_few_users_all_are_asked(kit: Any, users: int) -> None:
    splits = kit.splits(validation=users)
    best = kit.trial(validation={f"valid{i}": 1.5 for i in range(users)})
    found = await arena_of(kit, kit.pupil(), splits=splits).validate(kit.policy(0), best)
    assert found.finished
    assert len(found.scores) == users


async def test_a_validation_user_whose_episode_failed_has_no_score_and_is_told(kit: Any) -> None:
    pupil = kit.pupil(fails=lambda request: any("valid1" in message.content for message in request.messages))
    found = await arena_of(kit, pupil).validate(kit.policy())
    assert [*found.scores] == ["valid0", "valid2", "valid3"]
    assert found.failures == {"valid1": "the line is dead"}
    assert found.finished
    assert all("valid1" not in users for users in found.slices.values())


# Talks that are replayed, and what was run


async def test_with_talks_policies_listen_and_nobody_talks(kit: Any) -> None:
    splits = kit.splits(train=8, validation=4)
    recorded = await kit.evaluator(kit.pupil()).evaluate(kit.policy(20), tasks_of([*splits.train, *splits.validation]))
    pupil = kit.pupil()
    arena = Arena(splits, kit.evaluator(pupil), seed=0, block=4, replays=complete(recorded.episodes))
    race = await arena.race(kit.policy(60), [])
    found = await arena.validate(kit.policy(60))
    assert pupil.asked("reply", "user") == []
    assert len(race.scores) == 8
    assert len(found.scores) == 4


async def test_a_race_tells_its_periods_and_what_it_took(kit: Any) -> None:
    pupil = kit.pupil()
    arena = arena_of(kit, Metered(pupil, budget=Budget(Limits())), splits=lives_of(kit, 8))
    await arena.race(kit.policy(50), [])  # finds the upper bounds
    before = len(pupil.requests)
    lost, won = await arena.heat([kit.policy(0), kit.policy(100)], [[rival_with(kit, 1.0)], [rival_with(kit, 0.0)]])
    assert lost.stages == 2 * 4, "it lost on the first two periods of four users"
    assert won.stages == PERIODS * 8, "an episode that goes on is not counted again"
    assert 0 < lost.ledger.total.calls < won.ledger.total.calls
    assert lost.ledger.total.calls + won.ledger.total.calls == len(pupil.requests) - before


async def test_of_a_heat_the_better_half_goes_on_after_each_rung(kit: Any) -> None:
    arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 8))
    cares = [30, 100, 60, 40, 90, 50, 80, 70, 20]
    races = dict(
        zip(cares, await arena.heat([kit.policy(care) for care in cares], [[rival_with(kit, -1.0)]] * 9), strict=True)
    )
    assert {care for care in cares if races[care].finished} == {100, 90, 80}
    assert {care for care in cares if races[care].outrun} == {*cares} - {100, 90, 80}
    further = {care: sum(map(len, races[care].series.values())) for care in cares}
    assert further[80] > further[70] == further[60] > further[50] == further[20]


async def test_candidates_of_a_heat_that_lose_to_a_rival_are_left_and_not_outrun(kit: Any) -> None:
    arena = arena_of(kit, kit.pupil(), splits=lives_of(kit, 8))
    races = await arena.heat([kit.policy(care) for care in (0, 10)], [[rival_with(kit, 1.0)]] * 2)
    assert [(race.finished, race.outrun) for race in races] == [(False, False)] * 2
