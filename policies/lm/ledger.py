"""What calls have used, by what they were for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from ...data.values import Values
from ..forms import ResponseFormat

CallRole = Literal["user", "reply", "write", "answer", "probe", "upper_bound", "propose", "generate", "judge", "embed"]
"""What a call is for: the simulated user's turn, the assistant's reply, a memory write, a question, a probe of the
state, a question with the state given, a proposer's thought, scenario generation, a verdict on an answer, an
embedding."""

CALL_ROLES: tuple[CallRole, ...] = get_args(CallRole)


@dataclass(frozen=True, slots=True)
class Usage(Values):
    """What one call used."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None = 0.0
    """US dollars paid; None where the price is not known."""
    cached: bool = False
    """Whether the reply came from the cache, so that nothing was paid."""
    saved_usd: float | None = 0.0
    """US dollars that it would have cost beyond that without the cache."""
    cut: bool = False
    """Whether the reply ended because it reached its limit or the end of the context."""
    response_format: ResponseFormat | None = None
    """How a structured reply was asked for; None for free text."""

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    @property
    def full(self) -> Usage:
        """The same at the price without the cache."""
        if self.saved_usd == 0.0:
            return self
        unknown = self.cost_usd is None or self.saved_usd is None
        cost = None if unknown else (self.cost_usd or 0.0) + (self.saved_usd or 0.0)
        return replace(self, cost_usd=cost, saved_usd=0.0)

    def less(self, other: Usage) -> Usage:
        """Return by how much this is more than ``other``."""
        unknown = self.cost_usd is None or other.cost_usd is None
        cost = None if unknown else (self.cost_usd or 0.0) - (other.cost_usd or 0.0)
        return Usage(self.input_tokens - other.input_tokens, self.output_tokens - other.output_tokens, cost)


@dataclass(slots=True)
class Spend:
    """What the calls of one role have used so far."""

    calls: int = 0
    """Calls asked for, answered from the cache or not."""
    cached: int = 0
    """Of those, answered from the cache."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """US dollars paid; None as soon as one price is not known."""
    cut: int = 0
    """Replies that ended because they reached their limit."""
    response_formats: dict[ResponseFormat, int] = field(default_factory=dict)
    """Structured replies, by how they were asked for."""

    def add(self, usage: Usage, *, calls: int = 1) -> None:
        """Add what so many calls used together."""
        self.cached += calls * usage.cached
        self.cut += calls * usage.cut
        self._add(calls, usage.input_tokens, usage.output_tokens, usage.cost_usd)
        if usage.response_format is not None:
            self._add_format(usage.response_format, calls)

    def add_spend(self, other: Spend) -> None:
        """Add what ``other`` used."""
        self.cached += other.cached
        self.cut += other.cut
        self._add(other.calls, other.input_tokens, other.output_tokens, other.cost_usd)
        for kind, count in other.response_formats.items():
            self._add_format(kind, count)

    def _add(self, calls: int, input_tokens: int, output_tokens: int, cost_usd: float | None) -> None:
        self.calls += calls
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cost_usd = None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd

    def _add_format(self, kind: ResponseFormat, count: int) -> None:
        self.response_formats[kind] = self.response_formats.get(kind, 0) + count


@dataclass(slots=True)
class Ledger:
    """What was spent by each role."""

    by_role: dict[CallRole, Spend] = field(default_factory=dict)

    def add(self, role: CallRole, usage: Usage, *, calls: int = 1) -> None:
        """Add what so many calls of ``role`` used together."""
        self.by_role.setdefault(role, Spend()).add(usage, calls=calls)

    def add_ledger(self, other: Ledger) -> None:
        """Add everything that ``other`` holds."""
        for role, spend in other.by_role.items():
            self.by_role.setdefault(role, Spend()).add_spend(spend)

    def as_json(self) -> dict[str, dict[str, float | None]]:
        """Return the spend by role as plain JSON values."""
        return {role: asdict(spend) for role, spend in self.by_role.items()}

    @classmethod
    def from_json(cls, values: Mapping[CallRole, Any]) -> Ledger:
        """Read what ``as_json`` gave."""
        return cls({role: Spend(**spend) for role, spend in values.items()})

    @property
    def total(self) -> Spend:
        """The sum over all roles."""
        total = Spend()
        for spend in self.by_role.values():
            total.add_spend(spend)
        return total


def merged(ledgers: Sequence[Ledger]) -> Ledger:
    """Return the sum of several ledgers."""
    result = Ledger()
    for ledger in ledgers:
        result.add_ledger(ledger)
    return result
