"""Workers that borrow from one budget.

Invariants:

1. No limit is passed, whatever calls of several workers overlap, are repeated, sent again or fail.
2. Every call ends: a worker never waits for what it holds itself, nor for what another has given back.
3. What is left at the end is what was charged; nothing stays lent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    Charges,
    Completion,
    LanguageModel,
    LanguageModelError,
    Limits,
    Metered,
    Request,
    Usage,
)
from mnemotune.policies.lm.tab import Lender, Tab
from spending import most_input, price, priced, request, worst

PATIENCE_SECONDS = 5.0


def tabs_of(budget: Budget, workers: int) -> tuple[Lender, list[Tab]]:
    """Return who lends, and the tabs of so many workers, whose messages take a turn of the loop."""
    lender = Lender(budget, workers=workers)

    def tab(worker: int) -> Tab:
        async def settle(report):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0)
            lender.settle(worker, report)

        async def borrow(worst, key):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0)
            return await lender.lend(worker, worst, key)

        async def retry(worst):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0)
            await lender.retry(worker, worst)

        return Tab(budget.limits, settle=settle, borrow=borrow, retry=retry)

    return lender, [tab(worker) for worker in range(workers)]


@dataclass(frozen=True)
class Plan:
    """One call: who makes it and what is asked, how long it lasts in turns of the loop, and how it goes."""

    worker: int
    text: int
    lasts: int
    share: float
    """Of its worst case."""
    sent: bool
    unanswered: int
    fails: bool


PLANS = st.builds(
    Plan,
    worker=st.integers(0, 1),
    text=st.integers(0, 5),
    lasts=st.integers(0, 4),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    sent=st.booleans(),
    unanswered=st.integers(0, 2),
    fails=st.booleans(),
)
LIMITS = st.builds(
    Limits,
    calls=st.none() | st.integers(0, 10),
    tokens=st.none() | st.integers(0, 900),
    usd=st.none() | st.integers(0, 120).map(float),
)


class Planned(LanguageModel):
    """Goes as its plan says, and watches the budget."""

    name = "planned"

    def __init__(self, budget: Budget, plan: Plan) -> None:
        self._budget = budget
        self._plan = plan

    def worst_case(self, request: Request) -> Usage:
        return priced(super().worst_case(request))

    async def complete(self, asked: Request) -> Completion:
        plan = self._plan
        assert asked.bill is not None
        if plan.sent:
            await asked.bill.sending()
            for _ in range(plan.unanswered):
                await asked.bill.unanswered()
        for _ in range(plan.lasts):
            within(self._budget)
            await asyncio.sleep(0)
        if plan.fails:
            raise LanguageModelError("no")
        used = int(most_input(asked) * plan.share), int(asked.max_tokens * plan.share)
        return Completion("fine", Usage(*used, price(*used)))


def within(budget: Budget) -> None:
    limits = budget.limits
    assert limits.calls is None or budget.calls <= limits.calls
    assert limits.tokens is None or budget.tokens <= limits.tokens
    assert limits.usd is None or (budget.usd is not None and budget.usd <= limits.usd + 1e-6)


@settings(deadline=None)
@given(limits=LIMITS, plans=st.lists(PLANS, max_size=14))
def test_no_limit_is_passed_and_every_call_ends_invariants_1_to_3(limits: Limits, plans: Sequence[Plan]) -> None:
    async def run() -> None:
        budget = Budget(limits, charges=Charges(), phase="search")
        _, tabs = tabs_of(budget, 2)

        async def call(plan: Plan) -> None:
            model = Metered(Planned(budget, plan), budget=tabs[plan.worker])
            with suppress(BudgetExhausted, LanguageModelError):
                await model.complete(request(str(plan.text), max_tokens=40))

        async def work(worker: int) -> None:
            """Make a worker's calls side by side, and report at the end of a piece of work, as workers do."""
            await asyncio.gather(*(call(plan) for plan in plans if plan.worker == worker))
            await tabs[worker].report()

        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(work(0), work(1))
        within(budget)
        assert budget.calls == budget.charged == budget.ledger.total.calls
        assert (budget._held_calls, budget._held_tokens) == (0, 0)
        assert budget._held_usd == pytest.approx(0, abs=1e-6)
        assert budget.charges is not None
        spent = budget.charges.ledger().total
        assert spent.input_tokens + spent.output_tokens == budget.tokens

    asyncio.run(run())


async def test_a_request_that_is_charged_needs_no_budget_any_more() -> None:
    budget = Budget(Limits(calls=1), charges=Charges(), phase="search")
    _, (first, second) = tabs_of(budget, 2)
    plan = Plan(0, 0, 0, 0.5, sent=False, unanswered=0, fails=False)
    for tab in (first, second, first):
        await Metered(Planned(budget, plan), budget=tab).complete(request())
        await tab.report()
    assert budget.calls == 1
    with pytest.raises(BudgetExhausted, match="the budget of 1 calls is spent"):
        await Metered(Planned(budget, plan), budget=second).complete(request("other"))


async def test_an_attempt_that_fits_is_made_again_and_one_that_does_not_ends_at_once() -> None:
    for limit, fits in ((2 * worst().tokens, True), (2 * worst().tokens - 1, False)):
        budget = Budget(Limits(tokens=limit, calls=1), charges=Charges(), phase="search")
        _, (tab,) = tabs_of(budget, 1)
        plan = Plan(0, 0, 0, 0.5, sent=True, unanswered=1, fails=False)
        async with asyncio.timeout(PATIENCE_SECONDS):
            if fits:
                await Metered(Planned(budget, plan), budget=tab).complete(request())
            else:
                with pytest.raises(BudgetExhausted, match="could overshoot"):
                    await Metered(Planned(budget, plan), budget=tab).complete(request())


async def test_a_worker_that_is_lost_gives_back_what_it_was_lent_and_its_calls_count_at_their_worst() -> None:
    budget = Budget(Limits(tokens=10**6), charges=Charges(), phase="search")
    lender, (tab,) = tabs_of(budget, 1)
    plan = Plan(0, 0, 10**9, 0.5, sent=True, unanswered=0, fails=False)
    under_way = asyncio.create_task(Metered(Planned(budget, plan), budget=tab).complete(request()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert budget.charged == 1
    lender.lose(0)
    assert (budget.tokens, budget._held_tokens) == (worst().tokens, 0)
    under_way.cancel()
