"""What the scores say, worked by hand.

Invariants:

1. Accuracy and the shares of write, read and utilisation sum to 1 wherever anything is scored, else all are NaN.
2. A period's scores depend on nothing that comes after it, and not on the order of questions.
3. A question without a right answer leaves no trace in any share or baseline.
4. In period 0 nothing can be lost in reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mnemotune.data import Scenario
from mnemotune.env.dialogue.scoring import (
    METRICS,
    Diagnosis,
    PeriodScore,
    UserScore,
    failure_weights,
    last_change,
    score_episode,
    similarity,
)
from mnemotune.env.episode import Episode, PeriodRecord, UpperBound, answer_of

if TYPE_CHECKING:
    from .conftest import MakeEpisode, MakeScenario

    MakePeriod = Callable[..., PeriodRecord]

NAN = math.nan
BOTH = {"pet_0": True, "flat_0": True}

Ceiling = Sequence[Sequence[float]]
"""For each question and each of its choices, 1 if it is found when its state is given, else 0."""
Asked = tuple[int | None, int | None, Mapping[str, bool]]
"""A question's gold, the choice made, what the probe got right."""


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


def right_and_wrong(right: int, wrong: int) -> list[Asked]:
    asked = [(0, 0 if q < right else 1, known(True, True, q=q)) for q in range(right + wrong)]
    return list(asked)


# Accuracy and baselines


def test_accuracy_random_and_upper_bound_by_hand(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    """Five questions, four choices each: 3 right of 5, chance 1/4, and 4 of the 5 right with the states given."""
    scenario = make_scenario(sessions=(1,), questions=5)
    ceiling = [*[[1.0, 0.0, 0.0, 0.0]] * 4, [0.0, 1.0, 1.0, 1.0]]
    user = score_episode(make_episode([make_period(*right_and_wrong(3, 2))]), scenario, upper_bound(scenario, ceiling))
    (period,) = user.periods
    assert (period.diagnosis.accuracy, period.random, period.upper_bound) == pytest.approx((0.6, 0.25, 0.8))
    assert period.memory_score == pytest.approx((0.6 - 0.25) / (0.8 - 0.25))
    assert (period.diagnosis.questions, period.unparsable) == (5, 0)
    assert (user.user, user.memory_score, user.accuracy) == ("ann", period.memory_score, period.diagnosis.accuracy)


def test_chance_is_one_in_as_many_choices_as_each_question_has(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1,), questions=2)
    fewer = scenario.qas[1].model_copy(update={"answer_choices": scenario.qas[1].answer_choices[:2]})
    scenario = scenario.model_copy(update={"qas": [scenario.qas[0], fewer]})
    user = score_episode(make_episode([make_period(*right_and_wrong(2, 0))]), scenario, all_right(scenario))
    assert user.periods[0].random == pytest.approx((1 / 4 + 1 / 2) / 2)


def test_the_upper_bound_is_that_of_the_answer_that_is_right_now(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1, 1, 1), questions=1)
    periods = [make_period((gold, gold, BOTH)) for gold in (0, 2, 3)]
    user = score_episode(make_episode(periods), scenario, upper_bound(scenario, [[1.0, 0.0, 0.0, 1.0]]))
    assert [period.upper_bound for period in user.periods] == [1.0, 0.0, 1.0]


def test_an_unparsable_answer_is_wrong_and_counted(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1,), questions=3)
    period = make_period(
        (0, None, known(True, True)), (1, None, known(False, True, q=1)), (2, 2, known(True, True, q=2))
    )
    (score,) = score_episode(make_episode([period]), scenario, all_right(scenario)).periods
    assert score.unparsable == 2
    assert shares(score.diagnosis) == pytest.approx((1 / 3, 1 / 3, 0, 1 / 3))
    assert score.diagnosis.questions == 3


def test_a_question_without_a_right_answer_is_left_out(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    """Of three questions the second has no right answer; its two choices and its ceiling must not be seen."""
    scenario = make_scenario(sessions=(1,), questions=3)
    fewer = scenario.qas[1].model_copy(update={"answer_choices": scenario.qas[1].answer_choices[:2]})
    scenario = scenario.model_copy(update={"qas": [scenario.qas[0], fewer, scenario.qas[2]]})
    period = make_period((0, 0, known(True, True)), (None, 1, known(False, False, q=1)), (0, 1, known(True, True, q=2)))
    ceiling = [[1.0] * 4, [0.0] * 2, [1.0] * 4]
    (score,) = score_episode(make_episode([period]), scenario, upper_bound(scenario, ceiling)).periods
    assert shares(score.diagnosis) == pytest.approx((0.5, 0, 0, 0.5))
    assert (score.random, score.upper_bound, score.diagnosis.questions) == (0.25, 1.0, 2)
    assert score.memory_score == pytest.approx(1 / 3)


@pytest.mark.parametrize("questions", [0, 2])
def test_a_period_without_scored_questions_is_unscored_and_not_zero(
    questions: int, make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1, 1), questions=questions)
    period = make_period(*[(None, 0, known(False, False, q=q)) for q in range(questions)])
    user = score_episode(make_episode([period, period]), scenario, all_right(scenario))
    for score in user.periods:
        numbers = (score.random, score.upper_bound, score.memory_score, *shares(score.diagnosis))
        assert all(math.isnan(number) for number in numbers)
        assert score.diagnosis.questions == 0
    assert math.isnan(user.memory_score)
    assert math.isnan(user.accuracy)


def test_only_recorded_periods_are_scored(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1, 1, 1), questions=1)
    user = score_episode(make_episode([make_period((0, 0, BOTH))] * 2), scenario, all_right(scenario))
    assert len(user.periods) == 2


# The memory score


def period_score(accuracy: float, random: float, upper_bound: float) -> PeriodScore:
    return PeriodScore(random, upper_bound, Diagnosis(accuracy, 1 - accuracy, 0.0, 0.0, 10), unparsable=0)


@pytest.mark.parametrize(
    ("accuracy", "random", "upper_bound", "score"),
    [
        (0.25, 0.25, 0.9, 0.0),
        (0.9, 0.25, 0.9, 1.0),
        (0.5, 0.25, 0.75, 0.5),
        (0.0, 0.25, 0.75, -0.5),
        (1.0, 0.25, 0.75, 1.5),
        (0.367, 0.231, 0.917, 0.19825),
    ],
)
def test_the_memory_score_runs_from_chance_to_the_upper_bound(
    accuracy: float, random: float, upper_bound: float, score: float
) -> None:
    assert period_score(accuracy, random, upper_bound).memory_score == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize(
    ("random", "upper_bound"), [(0.25, 0.25), (0.1 + 0.2, 0.3), (0.3, 0.1 + 0.2), (NAN, 0.5), (0.5, NAN)]
)
def test_without_headroom_there_is_no_memory_score(random: float, upper_bound: float) -> None:
    assert math.isnan(period_score(0.5, random, upper_bound).memory_score)


def test_without_headroom_a_whole_period_is_left_out_of_its_users_score(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    """Given the states, one of four is right in period 0, which is chance, and all four in period 1."""
    scenario = make_scenario(sessions=(1, 1), questions=4)
    one_of_four = [[0.0 if q else 1.0, 1.0, 0.0, 0.0] for q in range(4)]
    first = make_period(*right_and_wrong(2, 2))
    second = make_period(*[(1, 1 if q < 2 else 0, known(True, True, q=q)) for q in range(4)])
    user = score_episode(make_episode([first, second]), scenario, upper_bound(scenario, one_of_four))
    assert math.isnan(user.periods[0].memory_score)
    assert user.memory_score == user.periods[1].memory_score == pytest.approx((0.5 - 0.25) / 0.75)
    assert user.accuracy == 0.5


def test_a_users_score_is_the_mean_of_ratios() -> None:
    """AMemGym's: (0.5 + 0) / 2, and not the ratio of the means, which is 0.25 / 1.125."""
    user = UserScore("ann", (period_score(0.5, 0.25, 0.75), period_score(0.25, 0.25, 1.0)))
    assert user.memory_score == pytest.approx(0.25)
    assert user.accuracy == pytest.approx(0.375)


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
    make_period: MakePeriod,
    make_episode: MakeEpisode,
) -> None:
    scenario = make_scenario(sessions=(1,) * 4, questions=1, changes={2: {"flat_0": "mid"}})
    periods = [make_period((0, 1, known(*(sign == "+" for sign in signs)))) for signs in history.split()]
    last = len(periods) - 1
    assert failure_weights(periods, last, 0, scenario) == weights, why
    user = score_episode(make_episode(periods), scenario, all_right(scenario))
    assert shares(user.periods[last].diagnosis) == (0.0, *weights)


def test_three_states_split_in_thirds(make_scenario: MakeScenario, make_period: MakePeriod) -> None:
    scenario = make_scenario(sessions=(1, 1), questions=1, kinds=("pet", "flat", "job"))
    first = make_period((0, 0, {"pet_0": True, "flat_0": False, "job_0": False}))
    then = make_period((0, 1, {"pet_0": False, "flat_0": False, "job_0": False}))
    assert failure_weights([first, then], 1, 0, scenario) == pytest.approx((2 / 3, 1 / 3, 0))


def test_only_the_questions_own_probes_count(make_scenario: MakeScenario, make_period: MakePeriod) -> None:
    """Two questions about the same states; the first one's probe knew the pet in period 0, the second one's did not."""
    scenario = make_scenario(sessions=(1, 1), questions=1)
    scenario = scenario.model_copy(update={"qas": [scenario.qas[0]] * 2})
    first = make_period((0, 0, known(True, True)), (0, 0, known(False, True)))
    then = make_period((0, 1, known(False, True)), (0, 1, known(False, True)))
    assert [failure_weights([first, then], 1, q, scenario) for q in (0, 1)] == [(0, 1, 0), (1, 0, 0)]


def test_a_right_answer_is_no_failure_however_little_is_known(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    scenario = make_scenario(sessions=(1,), questions=1)
    user = score_episode(make_episode([make_period((0, 0, known(False, False)))]), scenario, all_right(scenario))
    assert shares(user.periods[0].diagnosis) == (1.0, 0.0, 0.0, 0.0)


def test_shares_are_taken_over_all_questions_of_a_period(
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    """Of ten answers 4 are right, 1 is a matter of utilisation, 2 of write, 1 of read, 2 of both: .4 .3 .2 .1."""
    scenario = make_scenario(sessions=(1, 1), questions=10)
    before = [(True, True)] * 5 + [(False, True)] * 2 + [(True, True)] + [(False, True)] * 2
    after = [(True, True)] * 5 + [(False, True)] * 3 + [(False, False)] * 2
    first = make_period(*[(0, 0, known(*signs, q=q)) for q, signs in enumerate(before)])
    then = make_period(*[(0, 0 if q < 4 else 1, known(*signs, q=q)) for q, signs in enumerate(after)])
    user = score_episode(make_episode([first, then]), scenario, all_right(scenario))
    assert shares(user.periods[1].diagnosis) == pytest.approx((0.4, 0.3, 0.2, 0.1))


# When a state last changed


@pytest.mark.parametrize(
    ("info", "lasts"), [("pet_0", [0, 0, 0, 0, 0]), ("flat_0", [0, 1, 1, 3, 3]), ("pet_1", [0, 0, 0, 0, 4])]
)
def test_a_state_last_changed_when_it_was_last_told_until_now(
    info: str, lasts: list[int], make_scenario: MakeScenario
) -> None:
    scenario = make_scenario(
        sessions=(1,) * 5, changes={1: {"flat_0": "mid"}, 3: {"flat_0": "low"}, 4: {"pet_1": "mid"}}
    )
    assert [last_change(scenario, info, now) for now in range(5)] == lasts


def test_a_state_that_no_update_tells_holds_from_the_start(make_scenario: MakeScenario) -> None:
    scenario = make_scenario()
    silent = [period.model_copy(update={"updates": {}}) for period in scenario.periods]
    assert last_change(scenario.model_copy(update={"periods": silent}), "pet_0", 2) == 0


lives = st.lists(st.dictionaries(st.sampled_from(["pet_0", "flat_0"]), st.sampled_from(["low", "mid"])), max_size=6)


@given(changes=lives)
@settings(deadline=None)
def test_since_its_last_change_a_state_is_as_it_is_now(
    changes: list[dict[str, str]], make_scenario: MakeScenario
) -> None:
    count = len(changes) + 1
    scenario = make_scenario(sessions=(1,) * count, questions=1, changes=dict(enumerate(changes, 1)))
    for now in range(count):
        for info, value in scenario.periods[now].state.items():
            last = last_change(scenario, info, now)
            assert info in scenario.periods[last].updates
            assert {scenario.periods[p].state[info] for p in range(last, now + 1)} == {value}


# Any episode


@st.composite
def made_up(draw: st.DrawFn) -> tuple[dict[int, dict[str, str]], list[list[Asked]]]:
    """Make changes by period, and for each period of two questions what was asked and found."""
    periods = draw(st.integers(1, 4))
    infos = ["pet_0", "flat_0", "pet_1", "flat_1"]
    changes = draw(
        st.dictionaries(
            st.integers(1, 3), st.dictionaries(st.sampled_from(infos), st.sampled_from(["low", "mid"]), max_size=2)
        )
    )
    choice = st.none() | st.integers(0, 3)
    asked: list[list[Asked]] = [
        [(draw(choice), draw(choice), known(draw(st.booleans()), draw(st.booleans()), q=q)) for q in range(2)]
        for _ in range(periods)
    ]
    return {p: change for p, change in changes.items() if p < periods}, asked


ceilings = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=2, max_size=2)


@pytest.fixture(scope="session")
def score_made_up(make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode) -> Any:
    def scored(life: tuple[dict[int, dict[str, str]], list[list[Asked]]], ceiling: Ceiling) -> UserScore:
        changes, asked = life
        scenario = make_scenario(sessions=(1,) * len(asked), questions=2, changes=changes)
        episode: Episode = make_episode([make_period(*questions) for questions in asked])
        return score_episode(episode, scenario, upper_bound(scenario, ceiling))

    return scored


def alike(a: PeriodScore, b: PeriodScore) -> bool:
    flat = [(x.random, x.upper_bound, x.unparsable, *astuple(x.diagnosis)) for x in (a, b)]
    return flat[0] == pytest.approx(flat[1], nan_ok=True)


@given(life=made_up(), ceiling=ceilings)
@settings(deadline=None)
def test_accuracy_and_shares_sum_to_1(life: Any, ceiling: Ceiling, score_made_up: Any) -> None:
    for period, asked in zip(score_made_up(life, ceiling).periods, life[1], strict=True):
        scored = [(gold, choice) for gold, choice, _ in asked if gold is not None]
        parts = shares(period.diagnosis)
        assert period.diagnosis.questions == len(scored)
        if scored:
            assert sum(parts) == pytest.approx(1)
            assert all(0 <= part <= 1 for part in parts)
            assert parts[0] == pytest.approx(sum(gold == choice for gold, choice in scored) / len(scored))
        else:
            assert all(math.isnan(part) for part in parts)


@given(life=made_up(), ceiling=ceilings)
@settings(deadline=None)
def test_in_period_0_nothing_is_lost_in_reading(life: Any, ceiling: Ceiling, score_made_up: Any) -> None:
    first = score_made_up(life, ceiling).periods[0].diagnosis
    assert first.questions == 0 or first.read == 0


@given(life=made_up(), ceiling=ceilings)
@settings(deadline=None)
def test_a_period_knows_nothing_of_later_ones(life: Any, ceiling: Ceiling, score_made_up: Any) -> None:
    changes, asked = life
    assume(len(asked) > 1)
    short = {p: change for p, change in changes.items() if p < len(asked) - 1}
    whole, cut = score_made_up(life, ceiling), score_made_up((short, asked[:-1]), ceiling)
    assert all(alike(a, b) for a, b in zip(whole.periods[:-1], cut.periods, strict=True))


@given(life=made_up(), ceiling=ceilings)
@settings(deadline=None)
def test_the_order_of_questions_does_not_matter(
    life: Any,
    ceiling: Ceiling,
    score_made_up: Any,
    make_scenario: MakeScenario,
    make_period: MakePeriod,
    make_episode: MakeEpisode,
) -> None:
    changes, asked = life
    scenario = make_scenario(sessions=(1,) * len(asked), questions=2, changes=changes)
    turned = scenario.model_copy(update={"qas": scenario.qas[::-1]})
    episode = make_episode([make_period(*questions[::-1]) for questions in asked])
    other = score_episode(episode, turned, upper_bound(turned, ceiling[::-1]))
    assert all(alike(a, b) for a, b in zip(score_made_up(life, ceiling).periods, other.periods, strict=True))


@given(life=made_up(), ceiling=ceilings, data=st.data())
@settings(deadline=None)
def test_a_question_without_a_right_answer_leaves_no_trace_in_the_scores(
    life: Any, ceiling: Sequence[Sequence[float]], data: st.DataObject, score_made_up: Any
) -> None:
    """Question 1 has no right answer now: whatever was chosen, found or possible there, the scores stay."""
    changes, asked = life
    whatever: Asked = (None, data.draw(st.integers(0, 3)), known(data.draw(st.booleans()), False, q=1))
    unscored = [[questions[0], (None, 0, known(True, True, q=1))] for questions in asked]
    other = [[questions[0], whatever] for questions in asked]
    a = score_made_up((changes, unscored), ceiling)
    b = score_made_up((changes, other), [ceiling[0], data.draw(ceilings)[0]])
    assert all(alike(x, y) for x, y in zip(a.periods, b.periods, strict=True))


def test_an_upper_bound_below_chance_turns_the_ratio_round() -> None:
    """As AMemGym's does; where it happens over all, a search refuses to begin."""
    assert period_score(0.0, 0.25, 0.0).memory_score == 1.0
    assert period_score(0.5, 0.25, 0.0).memory_score == -1.0


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
    make_scenario: MakeScenario, make_period: MakePeriod, make_episode: MakeEpisode
) -> None:
    """Choices are low low, low mid, mid low, mid mid; the first is right, the second chosen."""
    scenario = make_scenario(sessions=(1,), questions=1)
    episode = make_episode([make_period((0, 1, BOTH))])
    (period,) = score_episode(episode, scenario, all_right(scenario)).periods
    assert astuple(period.level("accuracy")) == (0.0, 0.25, 1.0)
    assert astuple(period.level("hamming")) == pytest.approx((1 / 2, (1 + 1 / 2 + 1 / 2) / 4, 1.0))
    assert astuple(period.level("jaccard")) == pytest.approx((1 / 3, (1 + 1 / 3 + 1 / 3) / 4, 1.0))
    assert period.level("hamming").memory_score == pytest.approx(0.0)
