"""What a search is for, by name: score alone, or score for what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..data.registry import Registry
from ..env.cost import TurnCost
from ..policies.lm.prices import Prices

Worth = Callable[[float, TurnCost, Prices | None], float | None]
"""What a policy is worth by its memory score and what a turn costs; higher is better, None where that is not known."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What the policy that goes to the sealed test as evolved has most of."""

    worth: Worth
    """Orders the policies that are surely better than the seed policy; ``score`` is above 0."""
    counts_cost: bool = True
    """Whether anything but the score counts; else the policy that leads is the one that is sought."""
    needs_price: bool = False
    """Whether it asks what tokens cost in dollars."""


def dollars(cost: TurnCost, prices: Prices | None) -> float | None:
    """Return US dollars a turn; None where the price is not known."""
    return None if prices is None else prices.cost(cost.input_tokens, cost.output_tokens)


def _per(cost_of: Callable[[TurnCost, Prices | None], float | None]) -> Worth:
    def worth(score: float, turn: TurnCost, prices: Prices | None) -> float | None:
        cost = cost_of(turn, prices)
        return score / cost if cost is not None and cost > 0 else None

    return worth


OBJECTIVES: Registry[Objective] = Registry(
    "objective",
    "mnemotune.objectives",
    {
        "score": Objective(lambda score, turn, prices: score, counts_cost=False),
        "score-per-token": Objective(_per(lambda turn, prices: turn.tokens)),
        "score-per-call": Objective(_per(lambda turn, prices: turn.calls)),
        "score-per-dollar": Objective(_per(dollars), needs_price=True),
    },
)
