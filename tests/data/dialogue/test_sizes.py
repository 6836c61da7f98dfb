"""The bundled sets: small, base, extra."""

from __future__ import annotations

from statistics import mean

import pytest

from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.data.dialogue.load import load_scenarios
from mnemotune.data.dialogue.sizes import SIZES, Shape
from mnemotune.policies.text import sentences


@pytest.mark.parametrize(
    ("name", "users", "periods", "states"), [("small", 4, 11, 2), ("base", 20, 11, 2), ("extra", 20, 21, 3)]
)
def test_a_set_has_its_users_periods_and_states(name: str, users: int, periods: int, states: int) -> None:
    scenarios = load_scenarios(name)
    assert len(scenarios) == users
    for scenario in scenarios:
        assert len(scenario.periods) == periods
        assert len(scenario.qas) == 10
        assert {len(question.required_info) for question in scenario.qas} == {states}
        assert len(scenario.state_schema) == 10 * states


def test_the_sets_share_no_user() -> None:
    people = [scenario.id for name in SIZES for scenario in load_scenarios(name)]
    assert len(set(people)) == len(people)


def test_a_question_about_three_states_gives_advice_for_each() -> None:
    (scenario,) = generate_scenarios(users=1, seed=5, shape=Shape(states_per_question=3))
    for question in scenario.qas:
        assert len(set(question.required_info)) == 3
        assert mean(len(choice.answer.split()) for choice in question.answer_choices) > 110
        for period in scenario.periods:
            assert question.gold(period.state) is not None


def test_a_question_gives_one_value_the_same_advice_in_all_its_choices() -> None:
    """Otherwise two choices that agree in a state would differ in it for a reader of words."""
    for scenario in load_scenarios("small"):
        for question in scenario.qas:
            for place in range(2):
                for value in {choice.state[place] for choice in question.answer_choices}:
                    alike = [choice.answer for choice in question.answer_choices if choice.state[place] == value]
                    shared = frozenset.intersection(*(frozenset(sentences(answer)) for answer in alike))
                    assert shared
