"""What a policy costs in an assistant that people talk to."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..policies.lm import CallRole, Ledger, Spend

DEPLOYED: tuple[CallRole, ...] = ("reply", "write", "propose")
"""Replies, memory writes, and the rewriting of its own prompts by a policy that evolves. People play themselves, and
nobody asks them questions or probes their memory."""


@dataclass(frozen=True, slots=True)
class TurnCost:
    """What one turn of a talk costs on the average: a user's message, the reply to it, and what is written down."""

    calls: float
    """Of the assistant's model, at least 1. They go one after another, so that they stand for the time that a turn
    takes too: seconds would make no two runs alike."""
    input_tokens: float
    output_tokens: float

    @property
    def tokens(self) -> float:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def as_json(self) -> dict[str, float]:
        """Return plain JSON values."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


def turn_cost(ledger: Ledger) -> TurnCost | None:
    """Return the cost of a turn in the episodes behind ``ledger``; None without replies, as in replayed talks."""
    spends = {role: ledger.by_role.get(role, Spend()) for role in DEPLOYED}
    turns = spends["reply"].calls
    if turns == 0:
        return None
    return TurnCost(
        calls=sum(spend.calls for spend in spends.values()) / turns,
        input_tokens=sum(spend.input_tokens for spend in spends.values()) / turns,
        output_tokens=sum(spend.output_tokens for spend in spends.values()) / turns,
    )
