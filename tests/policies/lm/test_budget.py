"""A budget is never overshot.

Invariants:

1. Whatever calls overlap, whatever they take and however they end, no limit on calls, tokens or dollars is passed.
2. A call is refused only when its worst case does not fit, and then it is not made.
3. A call that has ended holds nothing any more.
4. Whenever the process is killed, what was written ahead covers what is gone and what calls under way can take.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    Completion,
    Consumed,
    LanguageModel,
    LanguageModelError,
    Ledger,
    Limits,
    Message,
    Metered,
    Request,
    Spend,
    Usage,
)
from mnemotune.policies.lm.budget import on_account
from mnemotune.policies.lm.embedded import EmbeddedModel


def request(text: str = "hello", *, max_tokens: int = 100) -> Request:
    return Request((Message("user", text),), "answer", max_tokens=max_tokens)


def worst(text: str = "hello", *, max_tokens: int = 100, usd: float | None = 0.0) -> Usage:
    return Usage(most_input(request(text)), max_tokens, usd)


def price(input_tokens: int, output_tokens: int) -> float:
    """A price whose sums are exact: 1/8 of a dollar per input token, 1/4 per output token."""
    return input_tokens / 8 + output_tokens / 4


def most_input(asked: Request) -> int:
    return 64 + sum(len(message.content.encode()) + 16 for message in asked.messages)


def refusal(budget: Budget, call: Usage) -> str:
    before = (budget.calls, budget.tokens, budget.usd)
    with pytest.raises(BudgetExhausted) as caught:
        budget.admit(call)
    assert (budget.calls, budget.tokens, budget.usd) == before
    return str(caught.value)


def take(budget: Budget, call: Usage, taken: Usage) -> None:
    """Admit a call that takes so much, and end it."""
    budget.admit(call)
    budget.count(taken)
    budget.end(call)


def priced(tokens: Usage) -> Usage:
    return replace(tokens, cost_usd=price(tokens.input_tokens, tokens.output_tokens))


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
    budget.end(worst())
    budget.admit(worst())
    assert budget.tokens == 30


def test_a_budget_in_dollars_holds_the_worst_case_back() -> None:
    budget = Budget(Limits(usd=4.0))
    budget.admit(worst(usd=2.0))
    budget.admit(worst(usd=2.0))
    assert refusal(budget, worst(usd=2.0)) == "the next call could overshoot the budget of $4.00"
    budget.count(Usage(1, 1, 0.25))
    budget.end(worst(usd=2.0))
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


def test_an_unanswered_attempt_counts_as_its_worst_case_and_the_next_one_is_held() -> None:
    budget = Budget(Limits(tokens=2 * worst().tokens, usd=10.0))
    budget.admit(worst(usd=2.0))
    budget.try_again(worst(usd=2.0))
    assert (budget.calls, budget.tokens, budget.usd) == (1, worst().tokens, 2.0)
    assert "could overshoot" in refusal(budget, worst(usd=2.0)), "the second attempt may take the rest"
    budget.count(Usage(7, 3, 0.5))
    budget.end(worst(usd=2.0))
    assert (budget.tokens, budget.usd) == (worst().tokens + 10, 2.5)


def test_an_attempt_that_does_not_fit_is_not_made_again() -> None:
    budget = Budget(Limits(tokens=2 * worst().tokens - 1))
    budget.admit(worst())
    with pytest.raises(BudgetExhausted, match="could overshoot"):
        budget.try_again(worst())
    budget.end(worst())
    assert budget.tokens == worst().tokens
    budget.admit(worst(max_tokens=0))


# What is written ahead


@settings(deadline=None)
@given(
    limits=st.builds(
        Limits,
        calls=st.none() | st.integers(50, 10_000),
        tokens=st.none() | st.integers(10**4, 10**7),
        usd=st.none() | st.floats(50.0, 500.0),
    ),
    plan=st.lists(st.tuples(st.integers(0, 400), st.floats(0.0, 1.0), st.booleans()), max_size=60),
)
def test_whenever_the_process_is_killed_what_was_written_ahead_covers_what_is_gone(
    limits: Limits, plan: Sequence[tuple[int, float, bool]]
) -> None:
    now, written = [0.0], [Consumed()]

    def note(ahead: Consumed) -> None:
        written[0] = ahead

    budget = Budget(limits, clock=lambda: now[0], write_ahead=note)
    for size, seconds, unanswered in plan:
        now[0] += seconds
        call = Usage(size, size, size / 100)
        try:
            budget.admit(call)
            if unanswered:
                budget.try_again(call)
        except BudgetExhausted:
            break
        assert budget.calls <= written[0].calls
        assert budget.tokens + call.tokens <= written[0].tokens
        assert (budget.usd or 0.0) + size / 100 <= (written[0].usd or 0.0) + 1e-9
        assert now[0] < written[0].seconds
        budget.count(call)
        budget.end(call)


def test_little_is_written_and_little_ahead() -> None:
    written: list[Consumed] = []
    budget = Budget(Limits(calls=10_000), write_ahead=written.append, clock=lambda: 0.0)
    for _ in range(10_000):
        take(budget, worst(), Usage(20, 10))
    assert len(written) <= 201
    assert written[-1].calls - budget.calls <= 50


def test_time_that_passes_without_a_call_is_written_too() -> None:
    now, written = [0.0], list[Consumed]()
    budget = Budget(Limits(), clock=lambda: now[0], write_ahead=written.append)
    for _ in range(100):
        now[0] += 1.0
        budget.cover()
        assert written[-1].seconds > now[0] + 1.0


# Metered calls


class Fixed(LanguageModel):
    """Takes what it is told to, or fails."""

    name = "fixed"

    def __init__(self, usage: Usage, *, error: BaseException | None = None) -> None:
        self.asked = 0
        self.closed = 0
        self._usage = usage
        self._error = error

    def worst_case(self, request: Request) -> Usage:
        return priced(super().worst_case(request))

    async def complete(self, _: Request) -> Completion:
        self.asked += 1
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        return Completion("fine", self._usage)

    async def aclose(self) -> None:
        self.closed += 1


async def test_calls_are_counted_by_role_with_and_without_a_budget() -> None:
    for budget in (None, Budget(Limits())):
        model = Metered(Fixed(Usage(7, 3, 0.5)), budget=budget)
        for role in ("answer", "answer", "write"):
            await model.complete(Request((Message("user", "hello"),), role))
        assert model.ledger.by_role == {"answer": Spend(2, 0, 14, 6, 1.0), "write": Spend(1, 0, 7, 3, 0.5)}
        assert budget is None or (budget.calls, budget.tokens, budget.usd) == (3, 30, 1.5)


async def test_what_is_taken_on_an_account_is_told_apart_and_a_meter_within_a_meter_counts_once() -> None:
    """Tasks that are started there take on the same account, whatever is done meanwhile elsewhere."""
    common = Metered(Fixed(Usage(7, 3, 0.5)), budget=Budget(Limits()))
    own, ledgers = Metered(common), [Ledger(), Ledger()]

    async def take(ledger: Ledger, calls: int) -> None:
        with on_account(ledger):
            await asyncio.gather(*(own.complete(request()) for _ in range(calls)))

    await asyncio.gather(take(ledgers[0], 2), take(ledgers[1], 3))
    await own.complete(request())
    assert [ledger.by_role for ledger in ledgers] == [
        {"answer": Spend(2, 0, 14, 6, 1.0)},
        {"answer": Spend(3, 0, 21, 9, 1.5)},
    ]
    assert common.ledger.total.calls == own.ledger.total.calls == 6


async def test_a_call_that_could_overshoot_is_not_made() -> None:
    inner = Fixed(Usage(7, 3))
    model = Metered(inner, budget=Budget(Limits(calls=1)))
    await model.complete(request())
    with pytest.raises(BudgetExhausted, match="the budget of 1 calls is spent"):
        await model.complete(request())
    assert inner.asked == 1
    assert model.ledger.total.calls == 1


@pytest.mark.parametrize("error", [LanguageModelError("no"), ValueError("odd")])
async def test_a_call_that_failed_holds_nothing_any_more_and_has_been_one_call(error: BaseException) -> None:
    budget = Budget(Limits(tokens=worst().tokens, calls=3))
    model = Metered(Fixed(Usage(7, 3), error=error), budget=budget)
    for _ in range(3):
        with pytest.raises(type(error)):
            await model.complete(request())
    assert (budget.calls, budget.tokens, budget.usd) == (3, 0, 0.0)
    assert model.ledger.by_role == {}
    with pytest.raises(BudgetExhausted, match="3 calls"):
        await model.complete(request())


async def test_a_call_that_is_broken_off_counts_as_its_worst_case_since_a_server_may_bill_it() -> None:
    budget = Budget(Limits(tokens=3 * worst().tokens))
    model = Metered(Fixed(Usage(7, 3), error=asyncio.CancelledError()), budget=budget)
    with pytest.raises(asyncio.CancelledError):
        await model.complete(request())
    assert (budget.calls, budget.tokens, budget.usd) == (1, worst().tokens, price(most_input(request()), 100))
    assert model.ledger.total == Spend(), "the ledger has what was answered"


async def test_attempts_that_a_model_gives_up_count_and_end_with_the_budget() -> None:
    class Silent(Fixed):
        async def complete(self, request: Request) -> Completion:
            assert request.unanswered is not None
            for _ in range(5):
                self.asked += 1
                request.unanswered()
            return await super().complete(request)

    inner = Silent(Usage(7, 3))
    budget = Budget(Limits(tokens=3 * worst().tokens))
    with pytest.raises(BudgetExhausted, match="could overshoot"):
        await Metered(inner, budget=budget).complete(request())
    assert inner.asked == 3
    assert (budget.calls, budget.tokens) == (1, 3 * worst().tokens)


async def test_time_that_is_up_during_a_call_breaks_it_off() -> None:
    class Slow(Fixed):
        async def complete(self, request: Request) -> Completion:
            await asyncio.sleep(60)
            return await super().complete(request)

    model = Metered(Slow(Usage(7, 3)), budget=Budget(Limits(seconds=0.05)))
    with pytest.raises(BudgetExhausted, match="seconds is spent"):
        await model.complete(request())


async def test_a_call_waits_for_what_others_hold_back_and_is_not_refused_for_it() -> None:
    class Yielding(Fixed):
        async def complete(self, request: Request) -> Completion:
            await asyncio.sleep(0)
            return await super().complete(request)

    model = Metered(Yielding(Usage(7, 3)), budget=Budget(Limits(tokens=worst().tokens + 200)))
    await asyncio.gather(*(model.complete(request()) for _ in range(20)))
    assert model.ledger.total.calls == 20


async def test_an_answer_from_the_cache_is_a_call_that_cost_nothing() -> None:
    model = Metered(Fixed(Usage(7, 3, 0.0, cached=True)), budget=Budget(Limits(usd=100.0)))
    await model.complete(request())
    assert model.ledger.total == Spend(1, 1, 7, 3, 0.0)


async def test_a_metered_model_has_its_models_name_and_closes_it() -> None:
    inner = Fixed(Usage(1, 1))
    model = Metered(inner)
    await model.aclose()
    assert (model.name, inner.closed) == ("fixed", 1)


# Calls that overlap


@dataclass(frozen=True)
class Plan:
    """One call: what is asked, when it starts and how long it lasts in turns of the loop, what it takes."""

    text: str
    max_tokens: int
    starts: int
    lasts: int
    share: float
    """Of its worst case."""
    fails: bool


PLANS = st.builds(
    Plan,
    text=st.text(max_size=8),
    max_tokens=st.integers(1, 40),
    starts=st.integers(0, 6),
    lasts=st.integers(0, 6),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    fails=st.booleans(),
)
LIMITS = st.builds(
    Limits,
    calls=st.none() | st.integers(0, 12),
    tokens=st.none() | st.integers(0, 800),
    usd=st.none() | st.integers(0, 100).map(float),
)


class Planned(LanguageModel):
    """Takes a share of each call's worst case, after a while, and watches the budget."""

    name = "planned"

    def __init__(self, budget: Budget, plans: dict[str, Plan]) -> None:
        self.made = 0
        self._budget = budget
        self._plans = plans

    def worst_case(self, request: Request) -> Usage:
        return priced(super().worst_case(request))

    async def complete(self, asked: Request) -> Completion:
        self.made += 1
        plan = self._plans[asked.messages[0].content]
        for _ in range(plan.lasts):
            self.check()
            await asyncio.sleep(0)
        if plan.fails:
            raise LanguageModelError("no")
        used_input, used_output = int(most_input(asked) * plan.share), int(plan.max_tokens * plan.share)
        return Completion("fine", Usage(used_input, used_output, price(used_input, used_output)))

    def check(self) -> None:
        budget, limits = self._budget, self._budget.limits
        assert self.made <= budget.calls
        assert limits.calls is None or budget.calls <= limits.calls
        assert limits.tokens is None or budget.tokens <= limits.tokens
        assert limits.usd is None or (budget.usd is not None and budget.usd <= limits.usd)

    async def aclose(self) -> None:
        pass


@settings(deadline=None)
@given(limits=LIMITS, plans=st.lists(PLANS, max_size=14))
def test_no_limit_is_passed_whatever_calls_overlap(limits: Limits, plans: Sequence[Plan]) -> None:
    named = {f"{i} {plan.text}": plan for i, plan in enumerate(plans)}

    async def run() -> None:
        budget = Budget(limits)
        inner = Planned(budget, named)
        model = Metered(inner, budget=budget)

        async def call(text: str, plan: Plan) -> str:
            for _ in range(plan.starts):
                await asyncio.sleep(0)
            try:
                await model.complete(request(text, max_tokens=plan.max_tokens))
            except BudgetExhausted:
                return "refused"
            except LanguageModelError:
                return "failed"
            return "done"

        ends = await asyncio.gather(*(call(text, plan) for text, plan in named.items()))
        inner.check()
        assert inner.made == budget.calls == len(ends) - ends.count("refused")
        total = model.ledger.total
        assert total.calls == ends.count("done")
        assert budget.tokens == total.input_tokens + total.output_tokens
        assert budget.usd == total.cost_usd
        for text, plan in named.items():
            assert fits(budget, request(text, max_tokens=plan.max_tokens)) == admitted(budget, text, plan)

    asyncio.run(run())


def fits(budget: Budget, asked: Request) -> bool:
    """Tell whether a call's worst case fits, nothing being under way."""
    most, limits = most_input(asked), budget.limits
    return (
        (limits.calls is None or budget.calls < limits.calls)
        and (limits.tokens is None or budget.tokens + most + asked.max_tokens <= limits.tokens)
        and (limits.usd is None or (budget.usd or 0.0) + price(most, asked.max_tokens) <= limits.usd)
    )


def admitted(budget: Budget, text: str, plan: Plan) -> bool:
    """Try a call and take it back."""
    call = priced(Usage(most_input(request(text)), plan.max_tokens))
    try:
        budget.admit(call)
    except BudgetExhausted:
        return False
    budget.end(call)
    budget.calls -= 1
    return True


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
