"""What a search is for, by name: score alone, or score for what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..data.registry import Registry
from ..env.cost import TurnCost
from ..policies.lm.prices import Prices

Worth = Callable[[float, TurnCost, Prices | None], float | None]
"""A policy's worth by its memory score and the cost of a turn; higher is better, None where it is not known."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What the evolved policy of the sealed test is best in."""

    worth: Worth
    """Ranks the policies that are surely better than the seed policy; their score is above 0."""
    counts_cost: bool = True
    """Whether cost counts beside the score; else the leader is the evolved policy."""
    needs_price: bool = False
    """Whether it needs the price of tokens in dollars."""


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
