"""A limit on calls, tokens, dollars and seconds that is never overshot, and the meter that keeps it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from .base import Completion, LanguageModel, Ledger, Request, Spend


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

    tokens: int
    usd: float


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

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return self._clock() - self._start

    def admit(self, request: Request) -> Hold:
        """Reserve one call's worst case. Raises BudgetExhausted, naming the limit, when it does not fit."""
        most_input = sum(len(m.content.encode("utf-8", "surrogatepass")) + 16 for m in request.messages)
        tokens = most_input + request.max_tokens
        usd = self._price(most_input, request.max_tokens)
        limits = self.limits
        if limits.calls is not None and self.calls + 1 > limits.calls:
            raise BudgetExhausted(f"the budget of {limits.calls:,} calls is spent")
        if limits.tokens is not None and self.tokens + self._held_tokens + tokens > limits.tokens:
            raise BudgetExhausted(f"the next call could overshoot the budget of {limits.tokens:,} tokens")
        if limits.usd is not None:
            if usd is None or self.usd is None:
                raise BudgetExhausted("the budget is in US dollars, but the model's price is not known; set `prices`")
            if self.usd + self._held_usd + usd > limits.usd:
                raise BudgetExhausted(f"the next call could overshoot the budget of ${limits.usd:.2f}")
        if limits.seconds is not None and self.seconds >= limits.seconds:
            raise BudgetExhausted(f"the budget of {limits.seconds:.0f} seconds is spent")
        hold = Hold(tokens, usd or 0.0)
        self.calls += 1
        self._held_tokens += hold.tokens
        self._held_usd += hold.usd
        return hold

    def settle(self, hold: Hold, spend: Spend) -> None:
        """Replace a hold by what the call really took (nothing, when it failed)."""
        self._held_tokens -= hold.tokens
        self._held_usd -= hold.usd
        self.tokens += spend.input_tokens + spend.output_tokens
        self.usd = None if self.usd is None or spend.cost_usd is None else self.usd + spend.cost_usd

    def charge(self, spend: Spend) -> None:
        """Count what an earlier part of the same run has spent."""
        self.calls += spend.calls
        self.settle(Hold(0, 0.0), spend)


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
        """Ask the inner model. Raises BudgetExhausted before a call that could overshoot."""
        if self.budget is None:
            completion = await self.model.complete(request)
            self.ledger.add(request.role, completion.usage)
            return completion
        hold = self.budget.admit(request)
        spend = Spend()
        try:
            completion = await self.model.complete(request)
            spend.add(completion.usage)
            self.ledger.add(request.role, completion.usage)
            return completion
        finally:
            self.budget.settle(hold, spend)

    async def aclose(self) -> None:
        """Close the inner model."""
        await self.model.aclose()
