"""A look at a candidate: what validation users say of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from ..env.statistics import Estimate, paired_difference, paired_test
from ..env.summary import from_json_number

LIKELY = 0.2
"""The same on validation users, up to which a candidate that is surely better than the seed policy becomes the best."""


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

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; NaN becomes null."""
        return {"gain": _as_json(self.gain), "effect": _number(self.effect), "p": _number(self.p)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Comparison:
        """Read what ``as_json`` gave."""
        gain = _from_json(values["gain"])
        return cls(gain, from_json_number(values["effect"]), from_json_number(values["p"]))


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

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; NaN becomes null."""
        return {
            "over_seed": self.over_seed.as_json(),
            "over_best": self.over_best.as_json(),
            "level": self.level,
            "last": self.last,
            "slices": {name: _as_json(difference) for name, difference in self.slices.items()},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Look:
        """Read what ``as_json`` gave."""
        return cls(
            Comparison.from_json(values["over_seed"]),
            Comparison.from_json(values["over_best"]),
            values["level"],
            values["last"],
            {name: _from_json(difference) for name, difference in values["slices"].items()},
        )


def _as_json(value: Estimate) -> list[float | None]:
    return [_number(part) for part in astuple(value)]


def _from_json(values: Sequence[Any]) -> Estimate:
    mean, low, high = map(from_json_number, values[:3])
    return Estimate(mean, low, high, values[3])


def _number(value: float) -> float | None:
    """Return a figure in full, so that what is read back is equal."""
    return None if math.isnan(value) else value
