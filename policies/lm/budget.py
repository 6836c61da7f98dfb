"""A limit on calls, tokens, dollars and seconds that is never overshot, and the meter that keeps it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakValueDictionary

from ...data.errors import MnemotuneError
from .base import (
    Bill,
    CallRole,
    Completion,
    Embedder,
    Embedding,
    LanguageModel,
    Ledger,
    Request,
    Spend,
    Usage,
    Wrapper,
    identity,
    in_batches,
)
from .charges import Charges

AnswerT = TypeVar("AnswerT", Completion, Embedding)
_account: ContextVar[Ledger | None] = ContextVar("account", default=None)


class BudgetExhausted(MnemotuneError):  # noqa: N818 - an expected end, not an error
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

    def room_for(self, spend: Spend) -> float:
        """Return how many times as much still fits after ``spend``, seconds aside; infinity without limits."""
        used = (
            (self.calls, spend.calls),
            (self.tokens, spend.input_tokens + spend.output_tokens),
            (self.usd, spend.cost_usd),
        )
        return min((limit / gone - 1 for limit, gone in used if limit is not None and gone), default=math.inf)


@dataclass(frozen=True, slots=True)
class Consumed:
    """How much of a budget is gone."""

    calls: int = 0
    tokens: int = 0
    """Input and output tokens together."""
    usd: float | None = 0.0
    """US dollars; None as soon as one price is not known."""
    seconds: float = 0.0


class Budget:
    """Spending under limits.

    A call is admitted only when its worst case still fits, so that no limit is ever overshot, however many calls are
    under way.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        earlier: Consumed = Consumed(),
        charges: Charges | None = None,
        phase: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start spending now, after what ``earlier`` parts of the same run used.

        A request that ``charges`` has already is free, unless it is sent again; what is new is added there as part of
        ``phase``. Without ``charges`` every call counts.
        """
        self.limits = limits
        self.calls = earlier.calls
        self.tokens = earlier.tokens
        self.usd = earlier.usd
        self.phase = phase
        self.charges = charges
        self.ledger = Ledger() if charges is None else charges.ledger(phase)
        """What the phase was charged."""
        self._clock = clock
        self._start = clock() - earlier.seconds
        self._held_tokens = 0
        self._held_usd = 0.0
        self._under_way: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._ended = asyncio.Event()
        """A call under way has ended; the next end is another event."""

    @property
    def seconds(self) -> float:
        """Time since the start, and the seconds of earlier parts of the same run."""
        return self._clock() - self._start

    @property
    def seconds_left(self) -> float | None:
        """Time until the limit; None without one."""
        return None if self.limits.seconds is None else self.limits.seconds - self.seconds

    @property
    def consumed(self) -> Consumed:
        """What is gone so far, what calls under way hold left out."""
        return Consumed(self.calls, self.tokens, self.usd, self.seconds)

    def admit(self, worst: Usage) -> None:
        """Reserve a call's worst case. Raises BudgetExhausted, naming the limit, when it does not fit."""
        self._check(worst, calls=1)
        self.calls += 1
        self._held_tokens += worst.tokens
        self._held_usd += worst.cost_usd or 0.0

    async def admit_in_turn(self, worst: Usage) -> None:
        """Reserve a call's worst case as soon as it fits: calls under way mostly give back some of what they hold.

        Raises BudgetExhausted when it cannot fit.
        """
        while self._problem(worst) and not self._problem(worst, under_way=False):
            await self._ended.wait()
        self.admit(worst)

    def count(self, usage: Usage) -> None:
        """Count what a call under way has taken."""
        self.tokens += usage.tokens
        self.usd = None if self.usd is None or usage.cost_usd is None else self.usd + usage.cost_usd

    def try_again(self, worst: Usage) -> None:
        """Count an attempt that was not answered as its worst case, for a server may bill it, and reserve another.

        Raises BudgetExhausted when another does not fit; then the call still holds what it held.
        """
        self.count(worst)
        self._check(Usage(0, 0), calls=0)

    def end(self, worst: Usage) -> None:
        """Give back what was reserved for a call."""
        self._held_tokens -= worst.tokens
        self._held_usd -= worst.cost_usd or 0.0
        self._ended.set()
        self._ended = asyncio.Event()

    async def spend(
        self, role: CallRole, worst: Usage, call: Callable[[Bill], Awaitable[AnswerT]], *, key: bytes
    ) -> AnswerT:
        """Make a call as soon as it fits; ``key`` tells requests apart, and equal ones wait for the first.

        Raises BudgetExhausted when it cannot fit, and when time is up meanwhile.
        """
        if self.charges is None:
            return await self._make(_Charge(self, role, worst, None), call)
        async with self._under_way.setdefault(key, asyncio.Lock()):
            return await self._make(_Charge(self, role, worst, key), call)

    async def _make(self, charge: _Charge, call: Callable[[Bill], Awaitable[AnswerT]]) -> AnswerT:
        await charge.begin()
        limit = asyncio.timeout(self.seconds_left)
        try:
            async with limit:
                answer = await call(charge)
            usage = answer.usage or charge.worst
            charge.settle(usage)
            account = _account.get()
            if account is not None:
                account.add(charge.role, usage)
            return answer
        except (asyncio.CancelledError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not limit.expired():
                raise
            charge.break_off()
            if limit.expired():
                raise BudgetExhausted(f"the budget of {self.limits.seconds:.0f} seconds is spent") from None
            raise
        finally:
            charge.end()

    def _check(self, worst: Usage, *, calls: int) -> None:
        problem = self._problem(worst, calls=calls)
        if problem:
            raise BudgetExhausted(problem)

    def _problem(self, worst: Usage, *, calls: int = 1, under_way: bool = True) -> str:
        """Say which limit so much more could overshoot; empty when there is none.

        Without ``under_way`` nothing is held back for the calls under way.
        """
        limits, held_tokens, held_usd = self.limits, self._held_tokens * under_way, self._held_usd * under_way
        if limits.calls is not None and self.calls + calls > limits.calls:
            return f"the budget of {limits.calls:,} calls is spent"
        if limits.tokens is not None and self.tokens + held_tokens + worst.tokens > limits.tokens:
            return f"the next call could overshoot the budget of {limits.tokens:,} tokens"
        if limits.usd is not None:
            if worst.cost_usd is None or self.usd is None:
                return "the budget is in US dollars, but a model's price is not known; set `prices`"
            if self.usd + held_usd + worst.cost_usd > limits.usd:
                return f"the next call could overshoot the budget of ${limits.usd:.2f}"
        if limits.seconds is not None and self.seconds >= limits.seconds:
            return f"the budget of {limits.seconds:.0f} seconds is spent"
        return ""


class _Charge:
    """One call on its way, and what it holds of a budget."""

    def __init__(self, budget: Budget, role: CallRole, worst: Usage, key: bytes | None) -> None:
        self.role = role
        self.worst = worst
        self._budget = budget
        self._key = key
        self._held = False
        self._sent = False
        self._settled = False
        self._was_open: bool | None = None
        """Whether an earlier process sent it and did not hear the answer; None where it is new."""

    async def begin(self) -> None:
        """Reserve the worst case of a request that is new."""
        if self._key is not None and self._budget.charges is not None:
            self._was_open = self._budget.charges.is_open(self._key)
        if self._was_open is None:
            await self._hold()

    async def sending(self) -> None:
        """Write the worst case down, so that a process that is killed forgets nothing."""
        if self._sent:
            return
        if not self._held:
            await self._hold()
        self._sent = True
        self._write(self.worst, calls=1, is_open=True, save=True)

    def unanswered(self) -> None:
        """Count an attempt as its worst case."""
        if not self._held:
            return
        self._write(self.worst, is_open=True, save=True)
        self._budget.try_again(self.worst)

    def settle(self, usage: Usage) -> None:
        """Count what the call took, unless that is done."""
        self._settled = True
        full, beyond = usage.full, usage.full.less(self.worst)
        if self._held:
            self._budget.count(full)
            self._write(beyond if self._sent else full, calls=0 if self._sent else 1)
        elif self._was_open:
            self._budget.count(beyond)
            self._write(beyond)

    def break_off(self) -> None:
        """Count what was sent and is not waited for any more as its worst case, since a server may bill it."""
        self._settled = True
        if self._sent:
            self._budget.count(self.worst)
        elif self._held:
            self._budget.calls -= 1

    def end(self) -> None:
        """Give back what is held; what failed is not under way any more."""
        if self._held:
            self._budget.end(self.worst)
        if self._sent and not self._settled:
            self._write(Usage(0, 0).less(self.worst))

    async def _hold(self) -> None:
        await self._budget.admit_in_turn(self.worst)
        self._held = True

    def _write(self, usage: Usage, *, calls: int = 0, is_open: bool = False, save: bool = False) -> None:
        charges, phase = self._budget.charges, self._budget.phase
        self._budget.ledger.add(self.role, usage, calls=calls)
        if charges is not None and self._key is not None:
            charges.add(self._key, self.role, usage, phase=phase, calls=calls, is_open=is_open, save=save)


@contextmanager
def on_account(ledger: Ledger) -> Iterator[None]:
    """Add to ``ledger`` what any budget spends inside the block, also for tasks that are started there."""
    token = _account.set(ledger)
    try:
        yield
    finally:
        _account.reset(token)


class Metered(Wrapper):
    """A language model whose calls are counted in ``ledger`` and, where there is one, admitted by ``budget``."""

    def __init__(self, model: LanguageModel, *, budget: Budget | None = None) -> None:
        """Count the calls of ``model`` from now on."""
        super().__init__(model)
        self.budget = budget
        self.ledger = Ledger()

    async def complete(self, request: Request) -> Completion:
        """Ask the inner model.

        Raises BudgetExhausted before a call that could overshoot, and when time is up during one. What was sent and not
        answered counts against the budget as its worst case, since a server may bill it; ``ledger`` has what was
        answered.
        """
        if self.budget is None:
            completion = await self.model.complete(request)
        else:
            completion = await self.budget.spend(
                request.role,
                self.model.worst_case(request),
                lambda bill: self.model.complete(replace(request, bill=bill)),
                key=request.identity(self.model.name),
            )
        self.ledger.add(request.role, completion.usage)
        return completion


class MeteredEmbedder(Embedder):
    """An embedder whose calls are counted and admitted as a language model's are; without an endpoint it has none."""

    def __init__(self, embedder: Embedder, *, budget: Budget | None = None) -> None:
        """Count the calls of ``embedder`` from now on."""
        self.embedder = embedder
        self.budget = budget
        self.ledger = Ledger()

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self.embedder.name

    def worst_case(self, texts: Sequence[str]) -> Usage | None:
        """Return the inner embedder's."""
        return self.embedder.worst_case(texts)

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Ask the inner embedder, MOST_TEXTS texts a call. Raises BudgetExhausted as ``Metered`` does."""
        if not texts or self.embedder.worst_case(texts) is None:
            return await self.embedder.embed(texts)
        return await in_batches(texts, lambda batch: self._call(batch, bill))

    async def aclose(self) -> None:
        """Close the inner embedder."""
        await self.embedder.aclose()

    async def _call(self, texts: Sequence[str], bill: Bill | None) -> Embedding:
        worst = self.embedder.worst_case(texts)
        if self.budget is None or worst is None:
            embedding = await self.embedder.embed(texts, bill=bill)
        else:
            embedding = await self.budget.spend(
                "embed",
                worst,
                lambda bill: self.embedder.embed(texts, bill=bill),
                key=identity(self.embedder.name, "embed", *texts),
            )
        if embedding.usage is not None:
            self.ledger.add("embed", embedding.usage)
        return embedding
