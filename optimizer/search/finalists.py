"""Finalists: policies that train groups cannot tell from the leader; validation groups help to choose among them.

They are looked at in the order of their train scores, which no validation group knows: a fixed sequence of tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...env.statistics import paired_test, shared_means
from ..looks import Look
from ..study import Trial, able, beats, leader

MOST = 3
"""Finalists of a search, the leader among them."""
TIED = 0.1
"""One-sided p of no lead of the leader's, on train groups, from which on a policy is tied with it."""


def finalists(trials: Sequence[Trial]) -> list[Trial]:
    """Return the leader and, best first, the policies that are tied with it and above the seed policy on train groups.

    Of policies that do the same on every train group, the first stands for all.
    """
    first, seed = leader(trials), trials[0]
    better = (trial for trial in able(trials) if trial.policy is not None and beats(trial, seed))
    tied = (trial for trial in better if paired_test(first.train, trial.train)[1] >= TIED)
    found = [first]
    for trial in sorted(tied, key=lambda trial: -trial.score):
        if not any(trial.policy == other.policy or trial.train == other.train for other in found):
            found.append(trial)
    return found[:MOST]


def over_all(trial: Trial, other: Trial) -> tuple[float, float]:
    """Return both trials' means over the train and validation groups together that both have a score for."""
    return shared_means({**trial.train, **trial.validation}, {**other.train, **other.validation})


def is_sure(look: Look) -> bool:
    """Tell whether a policy is surely better than the seed policy, and not for one reader's users alone."""
    return look.sure and look.only_reader is None
