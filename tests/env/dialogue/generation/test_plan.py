"""The numbers of a generation."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mnemotune.env.dialogue.generation.plan import GenerationPlan, expected_user_calls, most_user_calls, plan_values

V1_BASE = {
    "start_date": "2020-10-01",
    "lang": "en",
    "num_user_profiles": 20,
    "num_questions": 10,
    "num_periods": 10,
    "num_months_per_period": 3,
    "num_states_per_question": 2,
    "num_choices_per_state": 3,
    "num_changes_per_period": 4,
    "max_changes_per_state": 3,
    "min_state_variants": 4,
    "num_rounds_init": 1,
    "num_rounds_update": 2,
    "llm_config_high_temp": {"llm_model": "gpt-4.1", "temperature": 1.0, "max_tokens": 8192, "source": "x"},
    "llm_config_low_temp": {"llm_model": "gpt-4.1", "temperature": 0.2, "max_tokens": 8192, "source": "x"},
    "exclude_ids": [],
    "seed": 42,
}


def test_the_defaults_are_those_of_v1_base() -> None:
    assert GenerationPlan(**plan_values(V1_BASE)) == GenerationPlan(seed=42)


def test_amemgyms_env_config_gives_a_plan() -> None:
    env = V1_BASE | {
        "lang": "zh",
        "num_periods": 20,
        "num_states_per_question": 3,
        "exclude_ids": ["a", "b"],
        "llm_config_high_temp": {"temperature": 0.7, "max_tokens": 9000},
    }
    plan = GenerationPlan(**plan_values(env))
    assert (plan.language, plan.periods, plan.states_per_question) == ("Chinese", 20, 3)
    assert (plan.exclude_ids, plan.creative_temperature, plan.temperature) == (("a", "b"), 0.7, 0.2)
    assert plan.max_tokens == 9000


def test_an_env_config_may_be_partial_and_its_models_nonsense() -> None:
    assert plan_values({"num_rounds_init": 1, "llm_config_low_temp": 3}) == {}


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({"users": 0}, "users"),
        ({"periods": -1}, "periods"),
        ({"min_variants": 10}, "10 answers need as many combinations of states, but 2 states with 3 choices have 9"),
        ({"questions": 1}, "4 of at most 2 states"),
        ({"changes_per_period": 40, "questions": 100, "months_per_period": 1}, "a period needs a day for each change"),
        ({"start_date": "9990-01-01", "periods": 100}, "the last one ends after the year 9999"),
        ({"language": ""}, "language"),
        ({"temperature": 3}, "temperature"),
        ({"question": 3}, "question"),
    ],
)
def test_a_plan_that_cannot_be_kept_is_refused(given_: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        GenerationPlan(**given_)


@given(st.dates(date(1990, 1, 1), date(2030, 12, 31)), st.integers(1, 24), st.integers(0, 30))
def test_periods_end_on_the_same_day_of_a_later_month_or_its_last(start: date, months: int, period: int) -> None:
    plan = GenerationPlan(start_date=start, months_per_period=months, periods=30)
    end = plan.period_end(period)
    whole = (start.year * 12 + start.month - 1) + period * months
    assert (end.year, end.month) == (whole // 12, whole % 12 + 1)
    assert end.day == start.day or (end.day < start.day and (date.fromordinal(end.toordinal() + 1)).day == 1)


def test_a_month_that_is_too_short_ends_on_its_last_day() -> None:
    plan = GenerationPlan(start_date=date(2020, 11, 30), months_per_period=1)
    assert [plan.period_end(p).day for p in range(5)] == [30, 30, 30, 28, 30]


def test_v1_base_takes_about_as_many_calls_as_the_reference() -> None:
    assert expected_user_calls(GenerationPlan(), personas=True) == 136
    assert most_user_calls(GenerationPlan(), personas=True) == 4 * 46 + (90 + 20 + 50) * (1 + 20 * 5)


@given(st.integers(1, 6), st.integers(0, 5))
def test_more_patience_allows_more_calls_and_expects_as_many(attempts: int, refinements: int) -> None:
    less = GenerationPlan(attempts=attempts, refinements=refinements)
    more = GenerationPlan(attempts=attempts + 1, refinements=refinements + 1)
    assert expected_user_calls(less, personas=False) == expected_user_calls(more, personas=False)
    assert (
        most_user_calls(less, personas=False)
        < most_user_calls(less, personas=True)
        < most_user_calls(more, personas=False)
    )
