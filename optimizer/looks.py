"""Looks: what validation users say of a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..env.statistics import Estimate, paired_difference, paired_test

LIKELY = 0.2
"""One-sided p of no gain over the best policy up to which a candidate that is surely better than the seed is accepted.

It is taken on validation users."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far a candidate is above another policy on validation users, paired by user."""

    gain: Estimate
    """Mean difference, with its 95% interval."""
    effect: float
    """The mean difference in standard deviations of the differences (Cohen's d for pairs); NaN where all are equal."""
    p: float
    """One-sided, of no gain; NaN with fewer than two users."""

    @classmethod
    def of(cls, scores: Mapping[str, float], others: Mapping[str, float]) -> Comparison:
        """Compare on the users that both have a score for."""
        effect, p = paired_test(scores, others)
        return cls(paired_difference(scores, others), effect, p)


@dataclass(frozen=True, slots=True)
class Look:
    """What validation users say of a candidate."""

    over_seed: Comparison
    over_best: Comparison
    level: float
    """p over the seed policy below which the gain counts as sure, after the looks before."""
    last: bool
    """Whether it was a look at the end of the search."""
    slices: Mapping[str, Estimate] = field(default_factory=dict)
    """Difference from the best policy on each slice; the intervals hold for all slices together at 95%."""
    without_reader: Mapping[str, float] = field(default_factory=dict)
    """Mean gain over the seed policy where the users of one reader of the model's family are left out; empty without a
    family."""

    @property
    def only_reader(self) -> str | None:
        """The reader that alone makes the gain over the seed policy; None where there is none."""
        return next((name for name, gain in self.without_reader.items() if not gain > 0), None)

    @property
    def sure(self) -> bool:
        """Whether it is better than the seed policy at the level of this look."""
        return self.over_seed.p < self.level

    @property
    def likely(self) -> bool:
        """Whether it is likely better than the best policy so far."""
        return self.over_best.gain.mean > 0 and self.over_best.p < LIKELY

    @property
    def regressions(self) -> list[str]:
        """Topics and stretches of periods that got surely worse, the worst first.

        Failure stages are no regressions: what is written and not found was not even written before.
        """
        worse = [n for n, difference in self.slices.items() if difference.high < 0 and not n.endswith("failures")]
        return sorted(worse, key=lambda name: self.slices[name].mean)
