"""A limit on calls, tokens, dollars and seconds that is never overshot, and the meter that keeps it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from weakref import WeakValueDictionary

from ...data.errors import MnemotuneError
from ...data.values import Values
from .base import Bill, Completion, Embedding
from .charges import Charges
from .ledger import CallRole, Ledger, Spend, Usage

NOTHING = Usage(0, 0)
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
        self.charged = earlier.calls
        """Calls, those that are only reserved left out."""
        self.tokens = earlier.tokens
        self.usd = earlier.usd
        self.phase = phase
        self.charges = charges
        self.ledger = Ledger() if charges is None else charges.ledger(phase)
        """What the phase was charged."""
        self._clock = clock
        self._start = clock() - earlier.seconds
        self._dearest = NOTHING
        self._held_calls = 0
        self._held_tokens = 0
        self._held_usd = 0.0
        self._under_way: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._ended = asyncio.Event()
        """A call under way has ended; the next end is another event."""

    @property
    def calls(self) -> int:
        """Calls that were charged, and those that are reserved."""
        return self.charged + self._held_calls

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
        return Consumed(self.charged, self.tokens, self.usd, self.seconds)

    def admit(self, worst: Usage) -> None:
        """Reserve a call's worst case. Raises BudgetExhausted, naming the limit, when it does not fit."""
        self._check(worst, calls=1)
        self.hold(1, worst.tokens, worst.cost_usd or 0.0)

    async def admit_in_turn(self, worst: Usage) -> None:
        """Reserve a call's worst case as soon as it fits: calls under way mostly give back some of what they hold.

        Raises BudgetExhausted when it cannot fit.
        """
        while self._problem(worst) and not self._problem(worst, under_way=False):
            await self._ended.wait()
        self.admit(worst)

    async def admit_new(self, key: bytes | None, worst: Usage) -> bool:
        """Reserve the worst case of a request that is not charged yet as soon as it fits; tell whether it is new."""
        if self.is_open(key) is not None:
            return False
        await self.admit_in_turn(worst)
        return True

    def count(self, usage: Usage) -> None:
        """Count what a call under way has taken."""
        self.tokens += usage.tokens
        self.usd = None if self.usd is None or usage.cost_usd is None else self.usd + usage.cost_usd

    def hold(self, calls: int, tokens: int, usd: float) -> None:
        """Reserve so much; less than nothing gives it back."""
        self._held_calls += calls
        self._held_tokens += tokens
        self._held_usd += usd
        if min(calls, tokens, usd) < 0:
            self._ended.set()
            self._ended = asyncio.Event()

    def record(self, entry: Entry) -> None:
        """Count and write down what became of a request; it holds until then what it needs."""
        worst, usage = entry.worst, entry.usage
        if worst.tokens > self._dearest.tokens:
            self._dearest = worst
        match entry.what:
            case "sent":  # before it is sent, so that a process that is killed forgets nothing
                self.charged += 1
                self._write(entry, worst, calls=1, is_open=True, save=True)
            case "unanswered":
                self.count(worst)
                self._write(entry, worst, is_open=True, save=True)
            case "answered":
                self.count(usage)
                self._write(entry, usage.less(worst))
            case "known":
                self._record_known(entry)
            case "broken off":  # a server may bill it
                self.count(worst)
            case "failed":
                self._write(entry, Usage(0, 0).less(worst))

    def _record_known(self, entry: Entry) -> None:
        """Count an answer that nothing was sent for, unless it is counted already."""
        was_open = None
        if self.charges is not None and entry.key is not None:
            was_open = self.charges.add_new(entry.key, entry.role, entry.usage, phase=self.phase)
        if was_open is None:
            self.charged += 1
            self.count(entry.usage)
            self.ledger.add(entry.role, entry.usage)
        elif was_open:  # an earlier process sent it, and it was answered
            beyond = entry.usage.less(entry.worst)
            self.count(beyond)
            self._write(entry, beyond)

    def is_open(self, key: bytes | None) -> bool | None:
        """Tell what ``Charges.is_open`` tells; None without charges."""
        return None if self.charges is None or key is None else self.charges.is_open(key)

    async def written(self) -> None:
        """Wait until what was recorded is written down."""

    def _write(self, entry: Entry, usage: Usage, *, calls: int = 0, is_open: bool = False, save: bool = False) -> None:
        self.ledger.add(entry.role, usage, calls=calls)
        if self.charges is not None and entry.key is not None:
            self.charges.add(entry.key, entry.role, usage, phase=self.phase, calls=calls, is_open=is_open, save=save)

    async def spend(
        self, role: CallRole, worst: Usage, call: Callable[[Bill], Awaitable[AnswerT]], *, key: bytes
    ) -> AnswerT:
        """Make a call as soon as it fits; ``key`` tells requests apart, and equal ones wait for the first.

        Raises BudgetExhausted when it cannot fit, and when time is up meanwhile.
        """
        if self.charges is None:
            return await self._make(_Charge(self, role, worst, key), call)
        async with self._under_way.setdefault(key, asyncio.Lock()):
            return await self._make(_Charge(self, role, worst, key), call)

    async def _make(self, charge: _Charge, call: Callable[[Bill], Awaitable[AnswerT]]) -> AnswerT:
        await charge.begin()
        limit = asyncio.timeout(self.seconds_left)
        try:
            async with limit:
                answer = await call(charge)
            usage = answer.usage or charge.worst
            charge.settle(usage.full)
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

    async def check_next(self, worst: Usage) -> None:
        """Raise BudgetExhausted when another attempt of a call does not fit, for which ``worst`` is reserved."""
        self._check(NOTHING, calls=0)

    def join(self) -> None:
        """Raise BudgetExhausted when a call like the dearest so far would not fit.

        Whether the last calls of several that overlap fit depends on their order; whether this does not.
        """
        self._check(self._dearest, calls=0)

    def share(self, shares: int, workers: int) -> tuple[int, int, float]:
        """Return calls, tokens and dollars to lend to one of several workers.

        They are no more than one of so many shares of a limit, and than half of the worker's part of what is free.
        """
        limits = self.limits
        free = (
            (limits.calls, self.calls),
            (limits.tokens, self.tokens + self._held_tokens),
            (limits.usd, (self.usd or 0.0) + self._held_usd),
        )
        calls, tokens, usd = (
            0.0 if limit is None else max(0.0, min(limit / shares, (limit - used) / (2 * workers)))
            for limit, used in free
        )
        return int(calls), int(tokens), usd

    def _check(self, worst: Usage, *, calls: int) -> None:
        problem = self._problem(worst, calls=calls)
        if problem:
            raise BudgetExhausted(problem)

    def _problem(self, worst: Usage, *, calls: int = 1, under_way: bool = True) -> str:
        """Say which limit so much more could overshoot; empty when there is none.

        Without ``under_way`` nothing is held back for the calls under way.
        """
        limits, held_tokens, held_usd = self.limits, self._held_tokens * under_way, self._held_usd * under_way
        if limits.calls is not None and self.charged + self._held_calls * under_way + calls > limits.calls:
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


@dataclass(frozen=True, slots=True)
class Entry(Values):
    """What became of a request."""

    what: Literal["sent", "unanswered", "answered", "known", "broken off", "failed"]
    """``known`` is answered without being sent; the last two and ``answered`` end what was sent."""
    key: bytes | None
    role: CallRole
    worst: Usage
    usage: Usage
    """At the price without the cache."""


class _Charge:
    """One call on its way, and what it holds of a budget."""

    def __init__(self, budget: Budget, role: CallRole, worst: Usage, key: bytes | None) -> None:
        self.role = role
        self.worst = worst
        self._budget = budget
        self._key = key
        self._held = False
        self._sent = False
        self._ended = False

    async def begin(self) -> None:
        """Reserve the worst case of a request that is new."""
        self._held = await self._budget.admit_new(self._key, self.worst)

    async def reserve(self) -> None:
        """Reserve the worst case where that was not done: before a place is taken that a call with a reserve needs."""
        if not self._held and not self._sent:
            await self._budget.admit_in_turn(self.worst)
            self._held = True

    async def sending(self) -> None:
        """Write the worst case down."""
        if self._sent:
            return
        await self.reserve()
        self._sent = True
        self._budget.hold(-1, 0, 0.0)
        self._record("sent")
        await self._budget.written()

    async def unanswered(self) -> None:
        """Count an attempt as its worst case; the reserve is for the next."""
        if self._sent:
            self._record("unanswered")
            await self._budget.check_next(self.worst)

    def settle(self, usage: Usage) -> None:
        """Count what the call took."""
        self._ended = True
        self._record("answered" if self._sent else "known", usage)

    def break_off(self) -> None:
        """Count what was sent and is not waited for any more."""
        self._ended = True
        if self._sent:
            self._record("broken off")

    def end(self) -> None:
        """Give back what is held; what failed is not under way any more."""
        if self._held:
            self._budget.hold(0 if self._sent else -1, -self.worst.tokens, -(self.worst.cost_usd or 0.0))
        if self._sent and not self._ended:
            self._record("failed")

    def _record(self, what: Any, usage: Usage = NOTHING) -> None:
        self._budget.record(Entry(what, self._key, self.role, self.worst, usage))


def account() -> Ledger | None:
    """Return the ledger of the innermost ``on_account``, if there is one."""
    return _account.get()


@contextmanager
def on_account(ledger: Ledger) -> Iterator[None]:
    """Add to ``ledger`` what any budget spends inside the block, also for tasks that are started there."""
    token = _account.set(ledger)
    try:
        yield
    finally:
        _account.reset(token)
