"""Score against cost: which policies nothing beats in both, and which of them an objective picks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...env.cost import TurnCost
from ...env.statistics import paired_test
from ...policies.lm.prices import Prices
from ..objectives import Objective, Standing
from ..study import Trial, able, leader

SURE = 0.05
"""One-sided p of no gain over the seed policy, on train users, below which a policy can be picked for what it costs."""

NEARLY_ALL = 0.9
"""Share of the best policy's gain over the seed policy that a cheaper one is to keep, to be worth a thought."""
CHEAPER = 0.9
"""Share of the best policy's tokens of a turn that such a one takes at most."""

KEPT = 1 / 2
"""Share of the leader's gain over the seed policy, on train users, that such a policy keeps at least."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A raced policy's place: how well it does on the train users, and what a turn of it costs."""

    trial: Trial
    per_turn: TurnCost

    @property
    def cost(self) -> float:
        """Tokens of a turn."""
        return self.per_turn.tokens

    @property
    def score(self) -> float:
        """What it is compared by, mean over the train users."""
        return self.trial.score

    def standing(self, prices: Prices | None) -> Standing:
        """Return what an objective goes by."""
        summary = self.trial.summary
        if summary is None:
            return Standing(self.score, self.per_turn, prices=prices)
        stored = {name: figure.mean for name, figure in summary.stored.items()}
        return Standing(self.score, self.per_turn, summary.evidence.mean, prices, stored)

    def beats(self, other: Placed) -> bool:
        """Tell whether it is no worse in both and better in one."""
        no_worse = self.score >= other.score and self.cost <= other.cost
        return no_worse and (self.score > other.score or self.cost < other.cost)


def placed(trials: Sequence[Trial]) -> list[Placed]:
    """Return the places of the policies that met all train users and whose cost is known, each policy once."""
    places: dict[str, Placed] = {}
    for trial in able(trials):
        per_turn = None if trial.summary is None else trial.summary.per_turn
        if trial.policy is not None and per_turn is not None and not math.isnan(trial.score):
            places.setdefault(trial.policy.key, Placed(trial, per_turn))
    return list(places.values())


def front(places: Sequence[Placed]) -> list[Placed]:
    """Return the places that no other beats, the cheapest first."""
    best = [place for place in places if not any(other.beats(place) for other in places)]
    return sorted(best, key=lambda place: (place.cost, place.trial.number))


def cheaper(places: Sequence[Placed], best: Trial, seed: Trial) -> Placed | None:
    """Return the cheapest place that keeps NEARLY_ALL of the best policy's gain over the seed policy, on train users.

    None where none is cheaper by enough, or where the best one gains nothing.
    """
    known = next((place for place in places if place.trial.policy == best.policy), None)
    gain = math.nan if known is None else known.score - seed.score
    if known is None or not gain > 0:
        return None
    enough = [place for place in front(places) if place.score >= seed.score + NEARLY_ALL * gain]
    return enough[0] if enough and enough[0].cost <= CHEAPER * known.cost else None


def pick(trials: Sequence[Trial], objective: Objective, prices: Prices | None) -> Trial | None:
    """Return the trial that is best by an objective among the policies that are surely better than the seed policy.

    A policy is surely better when it was accepted at a look, or is better on train users with p < SURE. It must keep
    KEPT of the leader's gain on train users, so that nothing wins by costing next to nothing. None where no policy
    does.
    """
    seed = trials[0]
    floor = max(0.0, seed.score + KEPT * (leader(trials).score - seed.score))
    good = [p for p in placed(trials) if p.score > 0 and p.score >= floor and _surely_better(p.trial, trials)]
    worth = [(objective.worth(place.standing(prices)), place.trial) for place in good]
    known = [(value, -trial.number, trial) for value, trial in worth if value is not None]
    return max(known, key=lambda row: row[:2])[2] if known else None


def _surely_better(trial: Trial, trials: Sequence[Trial]) -> bool:
    """Tell whether a policy was accepted at a look, or is surely better than the seed policy on train users.

    What validation users said of a policy that was not accepted stays out of it: the pick is to be looked at on them.
    """
    looked_good = any(twin.accepted and twin.look for twin in trials[1:] if twin.policy == trial.policy)
    return looked_good or paired_test(trial.train, trials[0].train)[1] < SURE
