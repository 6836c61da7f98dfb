"""Metered calls are counted by role, and keep within their budget however they overlap.

Invariants:

1. Whatever calls overlap, whatever they take and however they end, no limit on calls, tokens or dollars is passed.
2. A call is refused only when its worst case does not fit, and then it is not made.
3. A call that has ended holds nothing any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopback import PATIENCE_SECONDS
from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    Completion,
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
from mnemotune.policies.lm.charges import Charges
from mnemotune.policies.lm.openai import OpenAIModel
from spending import end, most_input, price, priced, request, worst

if TYPE_CHECKING:
    from .conftest import ScriptedServer


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

    async def complete(self, request: Request) -> Completion:
        self.asked += 1
        if request.bill is not None:
            await request.bill.sending()
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
            assert request.bill is not None
            await request.bill.sending()
            for _ in range(5):
                self.asked += 1
                await request.bill.unanswered()
            return await super().complete(replace(request, bill=None))

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
        if asked.bill is not None:
            await asked.bill.sending()
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
    end(budget, call)
    return True


async def test_a_request_that_is_sent_again_takes_no_place_that_a_call_with_a_reserve_needs(
    server: ScriptedServer,
) -> None:
    """Near the end of a budget the two would wait for each other."""
    model = OpenAIModel("m", base_url=server.url, concurrency=1)
    metered = Metered(model, budget=Budget(Limits(calls=3), charges=Charges()))
    await metered.complete(request("known"))
    server.hold()
    asking = [asyncio.create_task(metered.complete(request(text))) for text in ("first", "known", "last")]
    await server.has_been_asked(2)
    server.release()
    ends = await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), PATIENCE_SECONDS)
    await model.aclose()
    assert [end.text if isinstance(end, Completion) else type(end) for end in ends[:2]] == ["fine", "fine"]
