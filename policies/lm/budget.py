"""A limit on calls, tokens, dollars and seconds that is never overshot, and the meter that keeps it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from .base import Completion, LanguageModel, Ledger, Request, Spend, Usage


class BudgetExhausted(Exception):  # noqa: N818 - an expected end, not an error
    """The next call could overshoot the budget; it was not made."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be spent over all roles; None is no limit."""

    calls: int | None = None
    tokens: int | None = None
    """Input and output tokens together."""
    usd: float | None = None
    """US dollars."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """The most that one call under way can take."""

    input_tokens: int
    output_tokens: int
    usd: float | None
    """US dollars; None where the price is not known."""

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    @property
    def usage(self) -> Usage:
        """The call as if it had taken its worst case."""
        return Usage(self.input_tokens, self.output_tokens, self.usd)


class Budget:
    """Spending under limits.

    A call is admitted only when its worst case still fits: every byte of its messages a token, its reply as long as
    allowed, priced in full. So no limit is ever overshot, however many calls are under way.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        price: Callable[[int, int], float | None] = lambda _input, _output: 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start spending now. ``price(input_tokens, output_tokens)`` is in US dollars, None where it is not known."""
        self.limits = limits
        self.calls = 0
        self.tokens = 0
        self.usd: float | None = 0.0
        self._price = price
        self._clock = clock
        self._start = clock()
        self._held_tokens = 0
        self._held_usd = 0.0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def seconds(self) -> float:
        """Time since the start, and what earlier parts of the same run took."""
        return self._clock() - self._start

    @property
    def seconds_left(self) -> float | None:
        """Time until the limit; None without one."""
        return None if self.limits.seconds is None else self.limits.seconds - self.seconds

    def admit(self, request: Request) -> Hold:
        """Reserve one call's worst case. Raises BudgetExhausted, naming the limit, when it does not fit."""
        hold = self._worst_case(request)
        problem = self._problem(hold, self._held_tokens, self._held_usd)
        if problem:
            raise BudgetExhausted(problem)
        self.calls += 1
        self._held_tokens += hold.tokens
        self._held_usd += hold.usd or 0.0
        return hold

    def fits_later(self, request: Request) -> bool:
        """Tell whether a call that does not fit now would fit if the calls under way took nothing."""
        return not self._problem(self._worst_case(request), 0, 0.0)

    async def settled(self) -> None:
        """Wait until a call under way has ended."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def _worst_case(self, request: Request) -> Hold:
        most_input = sum(len(m.content.encode("utf-8", "surrogatepass")) + 16 for m in request.messages)
        return Hold(most_input, request.max_tokens, self._price(most_input, request.max_tokens))

    def _problem(self, call: Hold, held_tokens: int, held_usd: float) -> str:
        """Say which limit the call could overshoot; empty when there is none."""
        limits = self.limits
        if limits.calls is not None and self.calls + 1 > limits.calls:
            return f"the budget of {limits.calls:,} calls is spent"
        if limits.tokens is not None and self.tokens + held_tokens + call.tokens > limits.tokens:
            return f"the next call could overshoot the budget of {limits.tokens:,} tokens"
        if limits.usd is not None:
            if call.usd is None or self.usd is None:
                return "the budget is in US dollars, but the model's price is not known; set `prices`"
            if self.usd + held_usd + call.usd > limits.usd:
                return f"the next call could overshoot the budget of ${limits.usd:.2f}"
        if limits.seconds is not None and self.seconds >= limits.seconds:
            return f"the budget of {limits.seconds:.0f} seconds is spent"
        return ""

    def settle(self, hold: Hold, spend: Spend) -> None:
        """Replace a hold by what the call really took (nothing, when it failed)."""
        self._held_tokens -= hold.tokens
        self._held_usd -= hold.usd or 0.0
        self.tokens += spend.input_tokens + spend.output_tokens
        self.usd = None if self.usd is None or spend.cost_usd is None else self.usd + spend.cost_usd
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    def charge(self, spend: Spend, *, seconds: float = 0.0) -> None:
        """Count what an earlier part of the same run has spent."""
        self.calls += spend.calls
        self.tokens += spend.input_tokens + spend.output_tokens
        self.usd = None if self.usd is None or spend.cost_usd is None else self.usd + spend.cost_usd
        self._start -= seconds


class Metered:
    """A language model whose calls are counted in ``ledger`` and, where there is one, admitted by ``budget``."""

    def __init__(self, model: LanguageModel, *, budget: Budget | None = None) -> None:
        """Count the calls of ``model`` from now on."""
        self.model = model
        self.budget = budget
        self.ledger = Ledger()

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.model.name

    async def complete(self, request: Request) -> Completion:
        """Ask the inner model.

        Raises BudgetExhausted before a call that could overshoot, and when time is up during one. A call that is broken
        off counts as its worst case: a server may bill it in full.
        """
        if self.budget is None:
            return self._count(request, await self.model.complete(request))
        hold = await self._admitted(request, self.budget)
        spend = Spend()
        limit = asyncio.timeout(self.budget.seconds_left)
        try:
            async with limit:
                completion = self._count(request, await self.model.complete(request))
            spend.add(completion.usage)
            return completion
        except (asyncio.CancelledError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not limit.expired():
                raise
            spend.add(hold.usage)
            self.ledger.add(request.role, hold.usage)
            if limit.expired():
                raise BudgetExhausted(f"the budget of {self.budget.limits.seconds:.0f} seconds is spent") from None
            raise
        finally:
            self.budget.settle(hold, spend)

    async def _admitted(self, request: Request, budget: Budget) -> Hold:
        """Admit a call as soon as it fits: what calls under way hold back is mostly given back."""
        while True:
            try:
                return budget.admit(request)
            except BudgetExhausted:
                if not budget.fits_later(request):
                    raise
            await budget.settled()

    def _count(self, request: Request, completion: Completion) -> Completion:
        self.ledger.add(request.role, completion.usage)
        return completion

    async def aclose(self) -> None:
        """Close the inner model."""
        await self.model.aclose()
