"""Finished searches of an ablation side by side: scores, paired differences, what they took."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...env.statistics import Estimate, estimate_repeated, nan_mean
from ...env.summary import json_number, score_json
from ...policies.files import WINDOW
from .ablation import Run
from .outcome import open_run
from .sealed import EVOLVED

COLUMNS = ("memory score", "over window", "difference", "candidates", "accepted", "periods", "calls", "seconds")
"""What is told of a variant, means over its searches; the sealed test is in the scores and the seconds alone."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a finished search found, and what it took."""

    seed: int
    run: str
    """Its folder."""
    by_group: Mapping[str, float]
    """Memory score of its best policy by sealed group; empty where the budget ended before the test."""
    window: Mapping[str, float]
    """The same of the newest messages that fit, nothing written."""
    candidates: int
    """Policies that were raced, the seed policy aside."""
    accepted: int
    periods: int
    """Periods of episodes that all races and looks ran."""
    calls: int
    """The search's, all roles."""
    seconds: float
    """Of the whole run, the sealed test included."""

    @classmethod
    def of(cls, run: Run) -> Finished:
        """Read what a run left behind."""
        outcome = open_run(run.folder)
        trials, rows = outcome.study.trials, outcome.test.rows
        return cls(
            seed=run.seed,
            run=str(run.folder),
            by_group=rows[EVOLVED].by_group if EVOLVED in rows else {},
            window=rows[WINDOW].by_group if WINDOW in rows else {},
            candidates=len({trial.policy for trial in trials[1:] if trial.series} - {trials[0].policy}),
            accepted=sum(trial.accepted for trial in trials[1:]),
            periods=sum(trial.periods for trial in trials),
            calls=outcome.search_spend.total.calls,
            seconds=round(outcome.consumed.seconds, 1),
        )

    @property
    def mean(self) -> float:
        """Mean over groups."""
        return nan_mean(list(self.by_group.values()))

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; NaN becomes null."""
        scores = {"by_group": self.by_group, "window": self.window}
        plain = {name: {user: json_number(score) for user, score in of.items()} for name, of in scores.items()}
        return asdict(self) | plain | {"memory_score": json_number(self.mean)}


@dataclass(frozen=True, slots=True)
class Variant:
    """All searches of one variant beside those of the first."""

    name: str
    searches: tuple[Finished, ...]
    score: Estimate
    """For new users and new seeds."""
    over_window: Estimate
    """The evolved policies' scores minus the window's, paired by user and seed."""
    difference: Estimate | None
    """This variant's score minus the first's, paired by user and seed; None for the first."""

    def mean(self, what: str) -> float:
        """Return the mean over searches of a figure of ``Finished``."""
        return statistics.fmean(getattr(search, what) for search in self.searches)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; what is not known is null."""
        return {
            "name": self.name,
            **score_json(self.score),
            "over_window": score_json(self.over_window),
            "difference": None if self.difference is None else score_json(self.difference),
            **{what: round(self.mean(what), 1) for what in COLUMNS[3:]},
            "searches": [search.as_json() for search in self.searches],
        }


def read_searches(runs: Sequence[Run]) -> dict[str, list[Finished]]:
    """Return the finished searches by variant, in the order of the runs."""
    searches: dict[str, list[Finished]] = {}
    for run in runs:
        searches.setdefault(run.variant, []).append(Finished.of(run))
    return searches


def compare_variants(by_variant: Mapping[str, Sequence[Finished]]) -> list[Variant]:
    """Compare each variant's searches with those of the first, under the same seeds on the same users."""
    first, *_ = by_variant
    theirs = {search.seed: search.by_group for search in by_variant[first]}
    variants = []
    for name, searches in by_variant.items():
        score = estimate_repeated([search.by_group for search in searches])
        over_window = estimate_repeated([_beyond(search.by_group, search.window) for search in searches])
        over_first = estimate_repeated([_beyond(s.by_group, theirs[s.seed]) for s in searches if s.seed in theirs])
        variants.append(Variant(name, tuple(searches), score, over_window, None if name == first else over_first))
    return variants


def _beyond(scores: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return {group: score - others.get(group, math.nan) for group, score in scores.items()}
