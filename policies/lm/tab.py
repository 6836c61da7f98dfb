"""A worker's part of a budget that is kept elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from .base import Usage
from .budget import NOTHING, Budget, Entry, Limits

SHARES = 200
"""A worker gets so small a part of a limit at once, or of what is left of it by the number of workers."""


@dataclass(frozen=True, slots=True)
class Amount:
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
class Report:
    """What a worker has done since its last report."""

    entries: tuple[Entry, ...]
    """Those of requests, in their order."""
    used: Amount
    """How much of what it was lent is used up or given back."""


ENDS = ("answered", "broken off", "failed")

Settle = Callable[[Report], Awaitable[None]]
Borrow = Callable[[Usage], Awaitable[Amount]]


class Tab(Budget):
    """A budget whose limits are what a lender lends; it takes every request for a new one.

    The lender knows better and counts each once. What is sent is reported before it is sent.
    """

    def __init__(self, limits: Limits, *, settle: Settle, borrow: Borrow) -> None:
        """Begin with nothing; only what ``limits`` of the whole budget bound is lent.

        ``settle`` takes a report. ``borrow`` returns at least so much as a call can take, or raises BudgetExhausted.
        """
        nothing = {name: 0 for name in ("calls", "tokens", "usd") if getattr(limits, name) is not None}
        super().__init__(Limits(**nothing))
        self._settle = settle
        self._borrow = borrow
        self._borrowing = asyncio.Lock()
        self._entries: list[Entry] = []
        self._reported = Amount()

    async def admit_in_turn(self, worst: Usage) -> None:
        """Reserve a call's worst case, borrowing more where it does not fit. Raises BudgetExhausted."""
        async with self._borrowing:
            if self._problem(worst):
                await self.report()
                self._widen(await self._borrow(worst))
            self.admit(worst)

    def record(self, entry: Entry) -> None:
        """Count and remember what became of a request."""
        super().record(entry)
        self._entries.append(entry)

    async def written(self) -> None:
        """Report at once."""
        await self.report(give_back=False)

    async def check_next(self, worst: Usage) -> None:
        """Borrow what another attempt takes beyond what was lent."""
        async with self._borrowing:
            if self._problem(NOTHING, calls=0):
                await self.report()
                self._widen(await self._borrow(worst))

    async def report(self, *, give_back: bool = True) -> None:
        """Tell the lender what happened since the last report, and give back what is free."""
        free = self._free() if give_back else Amount()
        self._widen(free.negative)
        now = Amount(self.charged, self.tokens, self.usd or 0.0)
        used = now.plus(self._reported.negative).plus(free).within(self.limits)
        entries, self._entries, self._reported = tuple(self._entries), [], now
        if entries or used != Amount():
            await self._settle(Report(entries, used))

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

    async def lend(self, worker: int, worst: Usage) -> Amount:
        """Return what a worker may use, at least a call's worst case, as soon as that fits.

        Raises BudgetExhausted when it cannot fit.
        """
        await self.budget.admit_in_turn(worst)
        held = Amount(1, worst.tokens, worst.cost_usd or 0.0)
        amount = held.plus(Amount(*self.budget.share(SHARES, self._workers))).within(self.budget.limits)
        self._hold(amount.plus(held.negative))
        self._lent[worker] = self._lent.get(worker, Amount()).plus(amount)
        return amount

    def settle(self, worker: int, report: Report) -> None:
        """Count what a worker has done, each request once."""
        under_way = self._under_way.setdefault(worker, [])
        for entry in report.entries:
            self.budget.record(entry)
            if entry.what == "sent":
                under_way.append(entry)
            elif entry.what in ENDS:
                under_way.remove(next(sent for sent in under_way if sent.key == entry.key))
        self._give_back(worker, report.used)

    def lose(self, worker: int) -> None:
        """Take back what a worker that is gone was lent; a server may bill what it had sent."""
        for entry in self._under_way.pop(worker, []):
            self.budget.record(replace(entry, what="broken off"))
        self._give_back(worker, self._lent.get(worker, Amount()))

    def _give_back(self, worker: int, used: Amount) -> None:
        self._lent[worker] = self._lent.get(worker, Amount()).plus(used.negative)
        self._hold(used.negative)

    def _hold(self, amount: Amount) -> None:
        self.budget.hold(amount.calls, amount.tokens, amount.usd)
