"""What the scores of the dialogue say, worked by hand: chance is the floor, the upper bound the ceiling.

Invariants of scores, whatever the track, are in ``tests/env/test_scoring.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.data import Scenario
from mnemotune.env.dialogue.bounds import bounds_of
from mnemotune.env.dialogue.compat import NONE
from mnemotune.env.dialogue.record import UpperBound, answer_of
from mnemotune.env.dialogue.scoring import METRICS, Level, levels, mean_level, mean_memory_score, similarity
from mnemotune.env.episode import Episode
from mnemotune.env.scoring import Diagnosis, GroupScore, failure_weights, marked, score_group

if TYPE_CHECKING:
    from ..conftest import Asked, MakeEpisode, MakeScenario

NAN = math.nan
BOTH = {"pet_0": True, "flat_0": True}

Ceiling = Sequence[Sequence[float]]
"""For each question and each of its choices, 1 if it is found when its state is given, else 0."""


def shares(diagnosis: Diagnosis) -> tuple[float, float, float, float]:
    return diagnosis.accuracy, diagnosis.write, diagnosis.read, diagnosis.utilisation


def known(pet: bool, flat: bool, *, q: int = 0) -> dict[str, bool]:
    return {f"pet_{q}": pet, f"flat_{q}": flat}


def upper_bound(scenario: Scenario, right: Ceiling) -> UpperBound:
    """Make an upper bound from whether each choice of each question is found when its state is given."""
    return tuple(
        tuple(answer_of("", c if found else None, c, question) for c, found in enumerate(choices))
        for question, choices in zip(scenario.qas, right, strict=True)
    )


def all_right(scenario: Scenario) -> UpperBound:
    return upper_bound(scenario, [[1.0] * len(question.answer_choices) for question in scenario.qas])


def scored(scenario: Scenario, episode: Episode, choices: UpperBound) -> GroupScore:
    return score_group(scenario.group, [(scenario, episode, bounds_of(scenario, choices, NONE))])


def weights_of(scenario: Scenario, episode: Episode, p: int, q: int = 0) -> tuple[float, float, float]:
    """Return how much of a question's loss at the end of a period falls to each kind of failure."""
    check, mark = marked(scenario, episode, p)[q]
    return failure_weights(check, mark, scenario, episode.stages)


def right_and_wrong(right: int, wrong: int) -> list[Asked]:
    return [(0, 0 if q < right else 1, known(True, True, q=q)) for q in range(right + wrong)]


# Accuracy and baselines


def test_accuracy_chance_and_upper_bound_by_hand(make_scenario: MakeScenario, make_episode: MakeEpisode) -> None:
    """Five questions, four choices each: 3 right of 5, chance 1/4, and 4 of the 5 right with the states given."""
    scenario = make_scenario(sessions=(1,), questions=5)
    ceiling = [*[[1.0, 0.0, 0.0, 0.0]] * 4, [0.0, 1.0, 1.0, 1.0]]
    user = scored(scenario, make_episode(scenario, [right_and_wrong(3, 2)]), upper_bound(scenario, ceiling))
    (period,) = user.stages
    assert (period.diagnosis.accuracy, period.floor, period.ceiling) == pytest.approx((0.6, 0.25, 0.8))
    assert period.memory_score == pytest.approx((0.6 - 0.25) / (0.8 - 0.25))
    assert (period.diagnosis.checks, period.unparsable) == (5, 0)
    assert (user.group, user.memory_score, user.accuracy) == ("ann", period.memory_score, period.diagnosis.accuracy)


def test_chance_is_one_in_as_many_choices_as_each_question_has(
    make_scenario: MakeScenario, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1,), questions=2)
    fewer = scenario.qas[1].model_copy(update={"answer_choices": scenario.qas[1].answer_choices[:2]})
    scenario = scenario.model_copy(update={"qas": [scenario.qas[0], fewer]})
    user = scored(scenario, make_episode(scenario, [right_and_wrong(2, 0)]), all_right(scenario))
    assert user.stages[0].floor == pytest.approx((1 / 4 + 1 / 2) / 2)


def test_the_upper_bound_is_that_of_the_answer_that_is_right_now(
    make_scenario: MakeScenario, make_episode: MakeEpisode
) -> None:
    changes = {1: {"pet_0": "mid"}, 2: {"flat_0": "mid"}}
    scenario = make_scenario(sessions=(1, 1, 1), questions=1, changes=changes)
    episode = make_episode(scenario, [[(gold, gold, BOTH)] for gold in (0, 2, 3)])
    user = scored(scenario, episode, upper_bound(scenario, [[1.0, 0.0, 0.0, 1.0]]))
    assert [period.ceiling for period in user.stages] == [1.0, 0.0, 1.0]


def test_an_unreadable_answer_is_wrong_and_counted(make_scenario: MakeScenario, make_episode: MakeEpisode) -> None:
    scenario = make_scenario(sessions=(1,), questions=3, changes={0: {"flat_1": "mid", "pet_2": "mid"}})
    asked = [(0, None, known(True, True)), (1, None, known(False, True, q=1)), (2, 2, known(True, True, q=2))]
    (period,) = scored(scenario, make_episode(scenario, [asked]), all_right(scenario)).stages
    assert period.unparsable == 2
    assert shares(period.diagnosis) == pytest.approx((1 / 3, 1 / 3, 0, 1 / 3))
    assert period.diagnosis.checks == 3


def test_a_question_without_a_right_answer_is_left_out(make_scenario: MakeScenario, make_episode: MakeEpisode) -> None:
    """Of three questions the second has no right answer; its two choices and its ceiling must not be seen."""
    scenario = make_scenario(sessions=(1,), questions=3, changes={0: {"pet_1": "high"}})
    fewer = scenario.qas[1].model_copy(update={"answer_choices": scenario.qas[1].answer_choices[:2]})
    scenario = scenario.model_copy(update={"qas": [scenario.qas[0], fewer, scenario.qas[2]]})
    asked = [(0, 0, known(True, True)), (None, 1, known(False, False, q=1)), (0, 1, known(True, True, q=2))]
    ceiling = [[1.0] * 4, [0.0] * 2, [1.0] * 4]
    (period,) = scored(scenario, make_episode(scenario, [asked]), upper_bound(scenario, ceiling)).stages
    assert shares(period.diagnosis) == pytest.approx((0.5, 0, 0, 0.5))
    assert (period.floor, period.ceiling, period.diagnosis.checks) == (0.25, 1.0, 2)
    assert period.memory_score == pytest.approx(1 / 3)


@pytest.mark.parametrize("questions", [0, 2])
def test_a_period_without_scored_questions_is_unscored_and_not_zero(
    questions: int, make_scenario: MakeScenario, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1, 1), questions=questions)
    asked = [(None, 0, known(False, False, q=q)) for q in range(questions)]
    user = scored(scenario, make_episode(scenario, [asked, asked]), all_right(scenario))
    for period in user.stages:
        numbers = (period.floor, period.ceiling, period.memory_score, *shares(period.diagnosis))
        assert all(math.isnan(number) for number in numbers)
        assert period.diagnosis.checks == 0
    assert math.isnan(user.memory_score)
    assert math.isnan(user.accuracy)


def test_only_recorded_periods_are_scored(make_scenario: MakeScenario, make_episode: MakeEpisode) -> None:
    scenario = make_scenario(sessions=(1, 1, 1), questions=1)
    user = scored(scenario, make_episode(scenario, [[(0, 0, BOTH)]] * 2), all_right(scenario))
    assert len(user.stages) == 2


def test_without_headroom_a_whole_period_is_left_out_of_its_users_score(
    make_scenario: MakeScenario, make_episode: MakeEpisode
) -> None:
    """Given the states, one of four is right in period 0, which is chance, and all four in period 1."""
    scenario = make_scenario(sessions=(1, 1), questions=4, changes={1: {f"flat_{q}": "mid" for q in range(4)}})
    one_of_four = [[0.0 if q else 1.0, 1.0, 0.0, 0.0] for q in range(4)]
    second = [(1, 1 if q < 2 else 0, known(True, True, q=q)) for q in range(4)]
    episode = make_episode(scenario, [right_and_wrong(2, 2), second])
    user = scored(scenario, episode, upper_bound(scenario, one_of_four))
    assert math.isnan(user.stages[0].memory_score)
    assert user.memory_score == user.stages[1].memory_score == pytest.approx((0.5 - 0.25) / 0.75)
    assert (user.accuracy, user.without_headroom) == (0.5, (0,))


# Where memory failed

# The flat changes in period 2, the pet never; "+" means known, for pet and flat, period by period.
FAILURES = [
    ("++", (0, 0, 1), "all known at once"),
    ("-+", (1, 0, 0), "in period 0 nothing can be lost later"),
    ("--", (1, 0, 0), "both never recorded, at once"),
    ("++ ++ ++ ++", (0, 0, 1), "all known"),
    ("-- -- -- ++", (0, 0, 1), "found again in the end"),
    ("-+ -+ -+ -+", (1, 0, 0), "never recorded"),
    ("-+ ++ ++ -+", (1, 0, 0), "unknown when it was told; what comes between does not count"),
    ("++ ++ ++ -+", (0, 1, 0), "recorded, not found"),
    ("++ -+ -+ -+", (0, 1, 0), "recorded, lost, not found"),
    ("++ ++ +- +-", (1, 0, 0), "the change was never recorded"),
    ("+- +- ++ +-", (0, 1, 0), "the change was recorded; how it was before does not count"),
    ("++ ++ +-", (1, 0, 0), "at its change, unknown means never recorded"),
    ("++ +-", (0, 1, 0), "before the change, the first value counts"),
    ("-+ ++ ++ --", (0.5, 0.5, 0), "one never recorded, one not found"),
    ("-+ -+ +- --", (1, 0, 0), "neither recorded"),
    ("++ -- ++ --", (0, 1, 0), "neither found"),
]


@pytest.mark.parametrize(("history", "weights", "why"), FAILURES, ids=[why for *_, why in FAILURES])
def test_a_wrong_answer_falls_to_the_stage_that_lost_its_states(
    history: str,
    weights: tuple[float, float, float],
    why: str,
    make_scenario: MakeScenario,
    make_episode: MakeEpisode,
) -> None:
    scenario = make_scenario(sessions=(1,) * 4, questions=1, changes={2: {"flat_0": "mid"}})
    periods = [[(0, 1, known(*(sign == "+" for sign in signs)))] for signs in history.split()]
    episode, last = make_episode(scenario, periods), len(periods) - 1
    assert weights_of(scenario, episode, last) == weights, why
    user = scored(scenario, episode, all_right(scenario))
    assert shares(user.stages[last].diagnosis) == (0.0, *weights)


def test_three_states_split_in_thirds(make_scenario: MakeScenario, make_episode: MakeEpisode) -> None:
    scenario = make_scenario(sessions=(1, 1), questions=1, kinds=("pet", "flat", "job"))
    first = (0, 0, {"pet_0": True, "flat_0": False, "job_0": False})
    then = (0, 1, {"pet_0": False, "flat_0": False, "job_0": False})
    assert weights_of(scenario, make_episode(scenario, [[first], [then]]), 1) == pytest.approx((2 / 3, 1 / 3, 0))


def test_only_the_questions_own_probes_count(make_scenario: MakeScenario, make_episode: MakeEpisode) -> None:
    """Two questions about the same states; the first one's probe knew the pet in period 0, the second one's did not."""
    scenario = make_scenario(sessions=(1, 1), questions=1)
    scenario = scenario.model_copy(update={"qas": [scenario.qas[0]] * 2})
    first = [(0, 0, known(True, True)), (0, 0, known(False, True))]
    then = [(0, 1, known(False, True)), (0, 1, known(False, True))]
    episode = make_episode(scenario, [first, then])
    assert [weights_of(scenario, episode, 1, q) for q in (0, 1)] == [(0, 1, 0), (1, 0, 0)]


def test_a_right_answer_is_no_failure_however_little_is_known(
    make_scenario: MakeScenario, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1,), questions=1)
    episode = make_episode(scenario, [[(0, 0, known(False, False))]])
    user = scored(scenario, episode, all_right(scenario))
    assert shares(user.stages[0].diagnosis) == (1.0, 0.0, 0.0, 0.0)


def test_shares_are_taken_over_all_questions_of_a_period(
    make_scenario: MakeScenario, make_episode: MakeEpisode
) -> None:
    """Of ten answers 4 are right, 1 is a matter of utilisation, 2 of write, 1 of read, 2 of both: .4 .3 .2 .1."""
    scenario = make_scenario(sessions=(1, 1), questions=10)
    before = [(True, True)] * 5 + [(False, True)] * 2 + [(True, True)] + [(False, True)] * 2
    after = [(True, True)] * 5 + [(False, True)] * 3 + [(False, False)] * 2
    first = [(0, 0, known(*signs, q=q)) for q, signs in enumerate(before)]
    then = [(0, 0 if q < 4 else 1, known(*signs, q=q)) for q, signs in enumerate(after)]
    user = scored(scenario, make_episode(scenario, [first, then]), all_right(scenario))
    assert shares(user.stages[1].diagnosis) == pytest.approx((0.4, 0.3, 0.2, 0.1))


# Other metrics


@pytest.mark.parametrize(
    ("one", "other", "scores"),
    [
        (("a", "b"), ("a", "b"), (1, 1, 1)),
        (("a", "b"), ("a", "c"), (0, 1 / 2, 1 / 3)),
        (("a", "b"), ("b", "a"), (0, 0, 0)),
        (("a", "b", "c"), ("a", "b", "d"), (0, 2 / 3, 1 / 2)),
        (("a",), ("a",), (1, 1, 1)),
    ],
)
def test_how_alike_two_states_are(one: Any, other: Any, scores: tuple[float, float, float]) -> None:
    assert tuple(similarity(one, other, metric) for metric in METRICS) == pytest.approx(scores)


def test_a_half_right_answer_counts_half_for_hamming_and_a_third_for_jaccard(
    make_scenario: MakeScenario, make_episode: MakeEpisode
) -> None:
    """Choices are low low, low mid, mid low, mid mid; the first is right, the second chosen."""
    scenario = make_scenario(sessions=(1,), questions=1)
    episode = make_episode(scenario, [[(0, 1, BOTH)]])
    accuracy, hamming, jaccard = (
        levels(episode, scenario, all_right(scenario), metric, compat=NONE)[0] for metric in METRICS
    )
    assert astuple(accuracy) == (0.0, 0.25, 1.0)
    assert astuple(hamming) == pytest.approx((1 / 2, (1 + 1 / 2 + 1 / 2) / 4, 1.0))
    assert astuple(jaccard) == pytest.approx((1 / 3, (1 + 1 / 3 + 1 / 3) / 4, 1.0))
    assert hamming.memory_score == pytest.approx(0.0)


def test_accuracy_as_a_metric_is_what_the_score_is_made_of(
    make_scenario: MakeScenario, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1, 1), questions=3, changes={1: {"pet_0": "high", "flat_1": "mid"}})
    episode = make_episode(
        scenario,
        [right_and_wrong(2, 1), [(None, 0, BOTH), (1, 1, known(True, True, q=1)), (0, 3, known(True, True, q=2))]],
    )
    ceiling = [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0], [1.0] * 4]
    found = levels(episode, scenario, upper_bound(scenario, ceiling), "accuracy", compat=NONE)
    user = scored(scenario, episode, upper_bound(scenario, ceiling))
    assert [astuple(level) for level in found] == [(s.accuracy, s.floor, s.ceiling) for s in user.stages]
    assert [level.memory_score for level in found] == [stage.memory_score for stage in user.stages]


def test_a_metrics_means_are_over_users_of_their_means_over_periods() -> None:
    ann = [Level(0.5, 0.25, 0.75), Level(NAN, NAN, NAN), Level(0.7, 0.25, 1.0)]
    ben = [Level(0.2, 0.2, 0.6)]
    assert astuple(mean_level([ann, ben])) == pytest.approx((0.4, (0.25 + 0.2) / 2, (0.875 + 0.6) / 2))
    assert mean_memory_score(ann, compat=NONE) == pytest.approx((0.5 + 0.6) / 2)
    assert math.isnan(mean_memory_score(ann, compat={"unguarded_score"}))
    assert mean_memory_score(ben, compat={"unguarded_score"}) == 0.0


@pytest.mark.parametrize(
    ("random", "upper_bound", "score"), [(0.25, 0.25, NAN), (0.1 + 0.2, 0.3, NAN), (0.25, 0.29, 6.25), (0.5, 0.2, 0.0)]
)
def test_a_metric_divides_by_whatever_headroom_there_is(random: float, upper_bound: float, score: float) -> None:
    assert Level(0.5, random, upper_bound).memory_score == pytest.approx(score, nan_ok=True)
