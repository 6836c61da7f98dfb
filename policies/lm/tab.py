"""A worker's part of a budget that is kept elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...data.values import Values
from .base import Bill
from .budget import AnswerT, Budget, Entry, Limits
from .ledger import CallRole, Usage

SHARES = 200
"""A worker gets at once a limit / SHARES, or half of its part of what is free where that is less."""
ROUNDING_USD = 1e-9
"""Lent beyond what is held, so that sums of dollars that differ in their last digit still fit."""


@dataclass(frozen=True, slots=True)
class Amount(Values):
    """So much of a budget."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def plus(self, other: Amount) -> Amount:
        """Return both together."""
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    @property
    def negative(self) -> Amount:
        """What takes it away."""
        return Amount(-self.calls, -self.tokens, -self.usd)

    def within(self, limits: Limits) -> Amount:
        """Return the part that limits bound."""
        return Amount(
            0 if limits.calls is None else self.calls,
            0 if limits.tokens is None else self.tokens,
            0.0 if limits.usd is None else self.usd,
        )


@dataclass(frozen=True, slots=True)
class Report(Values):
    """What a worker has done since its last report."""

    entries: tuple[Entry, ...]
    """Those of requests, in their order."""
    used: Amount
    """How much of what it was lent is used up or given back."""


ENDS = ("answered", "broken off", "failed")

Settle = Callable[[Report], Coroutine[Any, Any, None]]
Borrow = Callable[[Usage, bytes | None], Coroutine[Any, Any, Amount | None]]
Retry = Callable[[Usage], Awaitable[None]]
T = TypeVar("T")


class Tab(Budget):
    """A budget whose limits are what a lender lends; it takes every request for a new one.

    The lender knows better and counts each once. What is sent is reported before it is sent.
    """

    def __init__(self, limits: Limits, *, settle: Settle, borrow: Borrow, retry: Retry) -> None:
        """Begin with nothing; only what ``limits`` of the whole budget bound is lent.

        ``settle`` takes a report. ``borrow`` returns at least so much as a call can take, None for a request that is
        charged already, or raises BudgetExhausted; without a key the request is taken for a new one. ``retry`` lends
        the worst case of another attempt, or raises BudgetExhausted at once.
        """
        nothing = {name: 0 for name in ("calls", "tokens", "usd") if getattr(limits, name) is not None}
        super().__init__(Limits(**nothing))
        self._settle = settle
        self._borrow = borrow
        self._retry = retry
        self._borrowing = asyncio.Lock()
        self._kept = set[asyncio.Task[Any]]()
        self._entries: list[Entry] = []
        self._reported = Amount()

    async def spend(
        self, role: CallRole, worst: Usage, call: Callable[[Bill], Awaitable[AnswerT]], *, key: bytes
    ) -> AnswerT:
        """Make a call as ``Budget`` has it; what it gives back is told at once where another call waits for it."""
        try:
            return await super().spend(role, worst, call, key=key)
        finally:
            if self._borrowing.locked():
                await self.report()

    async def admit_new(self, key: bytes | None, worst: Usage) -> bool:
        """Reserve the worst case of a request that is new; tell whether it is, as far as that had to be asked."""
        async with self._borrowing:
            while self._problem(worst):
                await self.report()
                if not await self._to_the_end(self._borrow_more(worst, key)):
                    return False
            self.admit(worst)
            return True

    async def admit_in_turn(self, worst: Usage) -> None:
        """Reserve a call's worst case, borrowing more where it does not fit. Raises BudgetExhausted."""
        await self.admit_new(None, worst)

    def record(self, entry: Entry) -> None:
        """Count and remember what became of a request."""
        super().record(entry)
        self._entries.append(entry)

    async def written(self) -> None:
        """Report at once."""
        await self.report(give_back=False)

    async def check_next(self, worst: Usage) -> None:
        """Borrow what another attempt takes. Raises BudgetExhausted where that is too much."""
        self._widen(Amount(0, worst.tokens, worst.cost_usd or 0.0))
        await self.report()
        await self._retry(worst)

    async def report(self, *, give_back: bool = True) -> None:
        """Tell the lender what happened since the last report, and give back what is free."""
        free = self._free() if give_back else Amount()
        self._widen(free.negative)
        now = Amount(self.charged, self.tokens, self.usd or 0.0)
        used = now.plus(self._reported.negative).plus(free).within(self.limits)
        entries, self._entries, self._reported = tuple(self._entries), [], now
        if entries or used != Amount():
            await self._to_the_end(self._settle(Report(entries, used)))

    async def _borrow_more(self, worst: Usage, key: bytes | None) -> bool:
        amount = await self._borrow(worst, key)
        if amount is not None:
            self._widen(amount)
        return amount is not None

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns; it goes on where this is cancelled, for both sides must count the same."""
        task = asyncio.create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, done: asyncio.Task[Any]) -> None:
        self._kept.discard(done)
        if not done.cancelled():
            done.exception()  # else asyncio complains of an error that no caller waits for

    def _free(self) -> Amount:
        limits = self.limits
        return Amount(
            0 if limits.calls is None else limits.calls - self.calls,
            0 if limits.tokens is None else limits.tokens - self.tokens - self._held_tokens,
            0.0 if limits.usd is None else limits.usd - (self.usd or 0.0) - self._held_usd,
        )

    def _widen(self, by: Amount) -> None:
        limits = self.limits
        self.limits = Limits(
            None if limits.calls is None else limits.calls + by.calls,
            None if limits.tokens is None else limits.tokens + by.tokens,
            None if limits.usd is None else limits.usd + by.usd,
        )


class Lender:
    """Lends parts of a budget to workers, and counts what they report."""

    def __init__(self, budget: Budget, *, workers: int) -> None:
        """Lend from ``budget`` to so many."""
        self.budget = budget
        self._workers = workers
        self._lent: dict[int, Amount] = {}
        self._under_way: dict[int, list[Entry]] = {}
        """What each worker has sent, and not told the end of."""

    async def lend(self, worker: int, worst: Usage, key: bytes | None) -> Amount | None:
        """Return what a worker may use, at least a call's worst case, as soon as that fits.

        None for a request that is charged already. Raises BudgetExhausted when it cannot fit.
        """
        if self.budget.is_open(key) is not None:
            return None
        await self.budget.admit_in_turn(worst)
        held = Amount(1, worst.tokens, worst.cost_usd or 0.0)
        amount = held.plus(Amount(*self.budget.share(SHARES, self._workers))).within(self.budget.limits)
        self.budget.hold(-held.calls, -held.tokens, -held.usd)
        self._lend(worker, amount)
        return amount.plus(Amount(usd=ROUNDING_USD).within(self.budget.limits))

    async def retry(self, worker: int, worst: Usage) -> None:
        """Lend the worst case of another attempt. Raises BudgetExhausted where that is too much."""
        self._lend(worker, Amount(0, worst.tokens, worst.cost_usd or 0.0).within(self.budget.limits))
        await self.budget.check_next(worst)

    def settle(self, worker: int, report: Report) -> None:
        """Count what a worker has done, each request once."""
        theirs = self._under_way.setdefault(worker, [])
        for entry in report.entries:
            if entry.what != "known" or not self._is_sent(entry):
                self.budget.record(entry)
            if entry.what == "sent":
                theirs.append(entry)
            elif entry.what in ENDS:
                theirs.remove(next(sent for sent in theirs if sent.key == entry.key))
        self._lend(worker, report.used.negative)

    def _is_sent(self, entry: Entry) -> bool:
        """Tell whether a worker has sent the same request and will report what it took."""
        return any(sent.key == entry.key for several in self._under_way.values() for sent in several)

    def lose(self, worker: int) -> None:
        """Take back what a worker that is gone was lent; a server may bill what it had sent."""
        for entry in self._under_way.pop(worker, []):
            self.budget.record(replace(entry, what="broken off"))
        self._lend(worker, self._lent.get(worker, Amount()).negative)

    def _lend(self, worker: int, amount: Amount) -> None:
        """Hold so much more of the budget for a worker."""
        self._lent[worker] = self._lent.get(worker, Amount()).plus(amount)
        self.budget.hold(amount.calls, amount.tokens, amount.usd)
