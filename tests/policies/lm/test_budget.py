"""A budget is never overshot.

Invariant: a call is refused only when its worst case does not fit.
"""

from __future__ import annotations

import asyncio
import math

import pytest

from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    Consumed,
    Limits,
    Message,
    Request,
    Spend,
    Usage,
)
from mnemotune.policies.lm.budget import NOTHING, Entry
from mnemotune.policies.lm.embedded import EmbeddedModel
from spending import end, worst


def refusal(budget: Budget, call: Usage) -> str:
    before = (budget.calls, budget.tokens, budget.usd)
    with pytest.raises(BudgetExhausted) as caught:
        budget.admit(call)
    assert (budget.calls, budget.tokens, budget.usd) == before
    return str(caught.value)


def take(budget: Budget, call: Usage, taken: Usage) -> None:
    """Admit a call that takes so much, and end it."""
    budget.admit(call)
    budget.record(Entry("known", None, "answer", call, taken))
    end(budget, call)


# Limits, one by one


def test_without_limits_everything_is_admitted() -> None:
    budget = Budget(Limits())
    for _ in range(1000):
        budget.admit(worst(max_tokens=10**9))
    assert budget.calls == 1000


def test_the_last_call_is_admitted_and_the_next_is_not() -> None:
    budget = Budget(Limits(calls=3))
    for _ in range(3):
        take(budget, worst(), Usage(0, 0))
    assert refusal(budget, worst()) == "the budget of 3 calls is spent"


def test_a_budget_of_nothing_admits_nothing() -> None:
    assert "0 calls" in refusal(Budget(Limits(calls=0)), worst())
    assert "0 tokens" in refusal(Budget(Limits(tokens=0)), worst())
    assert "0 seconds" in refusal(Budget(Limits(seconds=0.0)), worst())
    assert "$0.00" in refusal(Budget(Limits(usd=0.0)), worst(usd=0.01))


@pytest.mark.parametrize("text", ["hello", "ünïcödé 🌱", "", "half a cat: \ud83d"])
def test_at_worst_each_byte_is_a_token_and_the_reply_as_long_as_allowed(text: str) -> None:
    """Half a character is what models write as JSON escapes, and then it stands in the next prompt."""
    asked = Request((Message("system", text), Message("user", text)), "answer", max_tokens=50)
    size = len(text.encode("utf-8", "surrogatepass"))
    assert EmbeddedModel().worst_case(asked) == Usage(2 * (size + 16) + 64, 50)


def test_a_call_is_admitted_when_its_worst_case_just_fits() -> None:
    Budget(Limits(tokens=worst().tokens)).admit(worst())
    limit = worst().tokens - 1
    assert refusal(Budget(Limits(tokens=limit)), worst()) == (
        f"the next call could overshoot the budget of {limit:,} tokens"
    )


def test_what_calls_under_way_could_take_is_held_back() -> None:
    budget = Budget(Limits(tokens=2 * worst().tokens + 30))
    budget.admit(worst())
    budget.admit(worst())
    assert "could overshoot" in refusal(budget, worst())
    budget.count(Usage(20, 10))
    end(budget, worst())
    budget.admit(worst())
    assert budget.tokens == 30


def test_a_budget_in_dollars_holds_the_worst_case_back() -> None:
    budget = Budget(Limits(usd=4.0))
    budget.admit(worst(usd=2.0))
    budget.admit(worst(usd=2.0))
    assert refusal(budget, worst(usd=2.0)) == "the next call could overshoot the budget of $4.00"
    budget.count(Usage(1, 1, 0.25))
    end(budget, worst(usd=2.0))
    assert budget.usd == 0.25
    assert "could overshoot" in refusal(budget, worst(usd=2.0))
    budget.admit(worst(usd=1.5))


def test_a_budget_in_dollars_needs_a_price_and_says_so() -> None:
    said = "the budget is in US dollars, but a model's price is not known; set `prices`"
    assert refusal(Budget(Limits(usd=5.0)), worst(usd=None)) == said
    budget = Budget(Limits(usd=5.0))
    take(budget, worst(), Usage(1, 1, None))
    assert refusal(budget, worst()) == said


def test_an_unknown_price_is_no_matter_without_a_limit_in_dollars() -> None:
    budget = Budget(Limits(calls=2))
    take(budget, worst(usd=None), Usage(1, 1, None))
    assert budget.usd is None
    budget.admit(worst())


def test_time_is_up_when_it_is_up() -> None:
    now = [100.0]
    budget = Budget(Limits(seconds=5.0), clock=lambda: now[0])
    assert budget.seconds == 0.0
    now[0] = 104.9
    budget.admit(worst())
    now[0] = 105.0
    assert refusal(budget, worst()) == "the budget of 5 seconds is spent"


def test_what_an_earlier_part_of_the_run_took_counts() -> None:
    earlier = Consumed(calls=9, tokens=500, usd=10.0, seconds=30.0)
    budget = Budget(Limits(calls=10, tokens=1000, usd=50.0, seconds=60.0), earlier=earlier, clock=lambda: 7.0)
    assert budget.consumed == earlier
    assert budget.seconds_left == 30.0
    budget.admit(worst(usd=1.0))
    assert "10 calls" in refusal(budget, worst(usd=1.0))
    gone = Budget(Limits(seconds=60.0), earlier=Consumed(seconds=60.0))
    assert "60 seconds" in refusal(gone, worst())
    unpriced = Budget(Limits(usd=5.0), earlier=Consumed(usd=None))
    assert "price is not known" in refusal(unpriced, worst())


def test_large_numbers_can_be_read() -> None:
    budget = Budget(Limits(calls=12_000), earlier=Consumed(calls=12_000))
    assert refusal(budget, worst()) == "the budget of 12,000 calls is spent"


# An attempt that was not answered


def again(budget: Budget, call: Usage) -> None:
    budget.record(Entry("unanswered", None, "answer", call, NOTHING))
    asyncio.run(budget.check_next(call))


def test_an_unanswered_attempt_counts_as_its_worst_case_and_the_next_one_is_held() -> None:
    budget = Budget(Limits(tokens=2 * worst().tokens, usd=10.0))
    budget.admit(worst(usd=2.0))
    again(budget, worst(usd=2.0))
    assert (budget.calls, budget.tokens, budget.usd) == (1, worst().tokens, 2.0)
    assert "could overshoot" in refusal(budget, worst(usd=2.0)), "the second attempt may take the rest"
    budget.count(Usage(7, 3, 0.5))
    end(budget, worst(usd=2.0))
    assert (budget.tokens, budget.usd) == (worst().tokens + 10, 2.5)


def test_an_attempt_that_does_not_fit_is_not_made_again() -> None:
    budget = Budget(Limits(tokens=2 * worst().tokens - 1))
    budget.admit(worst())
    with pytest.raises(BudgetExhausted, match="could overshoot"):
        again(budget, worst())
    end(budget, worst())
    assert budget.tokens == worst().tokens
    budget.admit(worst(max_tokens=0))


@pytest.mark.parametrize(
    ("limits", "room"),
    [
        (Limits(), math.inf),
        (Limits(calls=40), 3.0),
        (Limits(calls=40, tokens=300), 1.0),
        (Limits(usd=0.75), 2.0),
        (Limits(seconds=1.0), math.inf),
    ],
)
def test_the_room_for_a_spend_is_that_of_the_tightest_limit(limits: Limits, room: float) -> None:
    assert limits.room_for(Spend(calls=10, input_tokens=100, output_tokens=50, cost_usd=0.25)) == pytest.approx(room)
