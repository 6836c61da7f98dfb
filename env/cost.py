"""What a policy costs where it is used."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..policies.lm import CallRole, Ledger, Spend

BESIDE_TURNS: tuple[CallRole, ...] = ("write", "propose")
"""Roles of a deployed assistant besides its turns: memory writes, and the rewriting of prompts by a policy that
evolves. There is no simulated user, no probe, and where people talk to it no question."""


@dataclass(frozen=True, slots=True)
class TurnCost:
    """What one turn costs on the average: a reply to a user, or an agent's answer, and what is written down."""

    calls: float
    """Of the assistant's model, at least 1. They follow each other, and so they also stand for a turn's time; seconds
    would differ from run to run."""
    input_tokens: float
    output_tokens: float

    @property
    def tokens(self) -> float:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def as_json(self) -> dict[str, float]:
        """Return plain JSON values."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


def turn_cost(ledger: Ledger, turn: CallRole = "reply") -> TurnCost | None:
    """Return the cost of a turn in the episodes behind ``ledger``; ``turn`` is the role of its call.

    None where there is none, as in replayed talks.
    """
    spends = {role: ledger.by_role.get(role, Spend()) for role in (turn, *BESIDE_TURNS)}
    turns = spends[turn].calls
    if turns == 0:
        return None
    return TurnCost(
        calls=sum(spend.calls for spend in spends.values()) / turns,
        input_tokens=sum(spend.input_tokens for spend in spends.values()) / turns,
        output_tokens=sum(spend.output_tokens for spend in spends.values()) / turns,
    )
