"""What is said while a budget runs out: each level of each limit once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mnemotune.optimizer.config import BudgetLimits
from mnemotune.optimizer.search.allowance import due_warnings
from mnemotune.policies.lm import Consumed

LIMITS = BudgetLimits(calls=1000, tokens=10**6, usd=25.0, seconds=100.0)


def test_half_of_a_limit_and_four_fifths_of_it_are_said() -> None:
    told = []
    for calls in (499, 500, 799, 800, 1000):
        told += due_warnings(Consumed(calls=calls), LIMITS, told)
    assert told == ["50% of 1,000 calls", "80% of 1,000 calls"]


def test_a_warning_names_the_limit_and_its_key() -> None:
    gone = Consumed(calls=500, tokens=900_000, usd=13.0, seconds=1)
    assert [text for text in due_warnings(gone, LIMITS, []).values() if text] == [
        "50% of 1,000 calls are gone (search.budget.calls)",
        "80% of 1,000,000 tokens are gone (search.budget.tokens)",
        "50% of $25.00 are gone (search.budget.usd)",
    ]


def test_without_a_limit_or_a_price_nothing_is_said() -> None:
    assert due_warnings(Consumed(10**9, 10**12, 1e6, 1e9), BudgetLimits(), []) == {}
    assert due_warnings(Consumed(usd=None), BudgetLimits(usd=1.0), []) == {}


def test_a_limit_that_was_raised_is_told_of_anew() -> None:
    said = due_warnings(Consumed(calls=900), LIMITS, [])
    raised = LIMITS.model_copy(update={"calls": 1600})
    assert list(due_warnings(Consumed(calls=900), raised, list(said))) == ["50% of 1,600 calls"]


def test_a_small_limit_is_told_in_full_and_told_of_anew_when_it_is_raised() -> None:
    gone, small = Consumed(usd=0.004, seconds=0.4), BudgetLimits(usd=0.004, seconds=0.4)
    said = due_warnings(gone, small, [])
    assert list(said) == ["50% of $0.004", "80% of $0.004", "50% of 0.4 seconds", "80% of 0.4 seconds"]
    raised = BudgetLimits(usd=0.0045, seconds=0.45)
    assert list(due_warnings(gone, raised, list(said))) == [
        *("50% of $0.0045", "80% of $0.0045", "50% of 0.45 seconds", "80% of 0.45 seconds")
    ]
    assert list(due_warnings(Consumed(usd=9000.0), BudgetLimits(usd=12_345.67), [])) == ["50% of $12,345.67"]


@given(steps=st.lists(st.integers(0, 400), max_size=12), stops=st.sets(st.integers(0, 11)))
def test_however_a_run_is_stopped_each_level_that_was_passed_is_said_once(
    steps: Sequence[int], stops: set[int]
) -> None:
    gone, said, told = Consumed(), list[str](), list[str]()
    for i, step in enumerate(steps):
        gone = replace(gone, calls=gone.calls + step)
        due = due_warnings(gone, LIMITS, list(said) if i in stops else said)
        said += due
        told += due
    assert len(told) == len(set(told)) == sum(gone.calls >= level for level in (500, 800))
