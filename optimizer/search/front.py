"""Score against cost: which policies nothing beats in both, and which of them an objective picks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...env.cost import TurnCost
from ...env.statistics import paired_test
from ...policies.lm.prices import Prices
from ..config import Objective
from ..study import Trial, leader, raced

SURE = 0.05
"""One-sided p of no gain over the seed policy, on train users, below which a policy can be picked for what it costs."""

KEPT = 1 / 2
"""Share of the leader's gain over the seed policy, on train users, that such a policy keeps at least."""

CostOf = Callable[[TurnCost], float | None]
"""What a turn costs, in the unit of an objective; None where that is not known."""


def cost_in(objective: Objective, prices: Prices | None) -> CostOf:
    """Return the cost that an objective counts: tokens, calls, or dollars at ``prices``."""
    units: dict[Objective, CostOf] = {
        "score": lambda cost: cost.tokens,
        "score-per-token": lambda cost: cost.tokens,
        "score-per-call": lambda cost: cost.calls,
        "score-per-dollar": lambda cost: dollars(cost, prices),
    }
    return units[objective]


def dollars(cost: TurnCost, prices: Prices | None) -> float | None:
    """Return US dollars a turn; None where the price is not known."""
    return None if prices is None else prices.cost(cost.input_tokens, cost.output_tokens)


@dataclass(frozen=True, slots=True)
class Placed:
    """A raced policy's place: how well it does on the train users, and what a turn of it costs."""

    trial: Trial
    per_turn: TurnCost
    cost: float
    """Of a turn, in the unit that places are compared in."""

    @property
    def score(self) -> float:
        """Mean memory score over the train users."""
        return self.trial.score

    def beats(self, other: Placed) -> bool:
        """Tell whether it is no worse in both and better in one."""
        no_worse = self.score >= other.score and self.cost <= other.cost
        return no_worse and (self.score > other.score or self.cost < other.cost)


def placed(trials: Sequence[Trial], cost_of: CostOf) -> list[Placed]:
    """Return the places of the policies that met all train users and whose cost is known, each policy once."""
    found: dict[str, Placed] = {}
    for trial in raced(trials):
        per_turn = None if trial.summary is None else trial.summary.per_turn
        cost = None if per_turn is None else cost_of(per_turn)
        if trial.policy is not None and per_turn is not None and cost is not None and not math.isnan(trial.score):
            found.setdefault(trial.policy.key, Placed(trial, per_turn, cost))
    return list(found.values())


def front(places: Sequence[Placed]) -> list[Placed]:
    """Return the places that no other beats, the cheapest first."""
    best = [one for one in places if not any(other.beats(one) for other in places)]
    return sorted(best, key=lambda one: (one.cost, one.trial.number))


def users_won(places: Sequence[Placed]) -> dict[int, list[str]]:
    """Return the train users for whom each policy is best, by the number of its trial; ties count for all."""
    won: dict[int, list[str]] = {}
    for user in places[0].trial.train if places else ():
        scores = {one.trial.number: one.trial.train.get(user, math.nan) for one in places}
        best = max((score for score in scores.values() if not math.isnan(score)), default=math.nan)
        for number in (number for number, score in scores.items() if score == best):
            won.setdefault(number, []).append(user)
    return won


def pick(trials: Sequence[Trial], cost_of: CostOf) -> Trial | None:
    """Return the trial with the most score for its cost, among the policies that are surely better than the seed.

    Sure is what was accepted at a look, and what is better on train users with p < SURE.
    It keeps at least KEPT of the leader's gain on train users: so nothing wins by costing next to nothing. None where
    no policy is like that.
    """
    seed = trials[0]
    floor = max(0.0, seed.score + KEPT * (leader(trials).score - seed.score))
    able = [
        one
        for one in placed(trials, cost_of)
        if one.score > 0 and one.score >= floor and one.cost > 0 and _surely_better(one.trial, trials)
    ]
    return max(able, key=lambda one: (one.score / one.cost, -one.trial.number)).trial if able else None


def _surely_better(trial: Trial, trials: Sequence[Trial]) -> bool:
    """Tell whether a policy was accepted at a look, or is surely better than the seed policy on train users.

    What validation users said of a policy that was not accepted stays out of it: the pick is to be looked at on them.
    """
    looked_good = any(twin.accepted and twin.look for twin in trials[1:] if twin.policy == trial.policy)
    return looked_good or paired_test(trial.train, trials[0].train)[1] < SURE
