"""Finished searches of an ablation side by side: scores, paired differences, what they took."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from ...env.statistics import Estimate, estimate_repeated, nan_mean
from ..views.plots import variants_plot
from ..views.table import count, number, with_interval
from .ablation import Run
from .outcome import open_run
from .sealed import EVOLVED

COLUMNS = ("memory score", "difference", "candidates", "accepted", "periods", "calls", "seconds")
"""Means over the searches of a variant; the sealed test is in the scores and the seconds alone."""
NARROW = ("score", "difference", "tried", "acc.", "periods", "calls", "s")
"""The same for a terminal of 80 columns."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a finished search found, and what it took."""

    seed: int
    run: str
    """Its folder."""
    by_user: Mapping[str, float | None]
    """Memory score of its best policy by sealed user; empty where the budget ended before the test."""
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
        trials = outcome.study.trials
        raced = {trial.policy for trial in trials[1:] if trial.series and trial.policy != trials[0].policy}
        return cls(
            seed=run.seed,
            run=str(run.folder),
            by_user=outcome.test.rows.get(EVOLVED, {}).get("by_user", {}),
            candidates=len(raced),
            accepted=sum(trial.accepted for trial in trials[1:]),
            periods=sum(trial.periods for trial in trials),
            calls=outcome.search_spend.total.calls,
            seconds=round(outcome.consumed.seconds, 1),
        )

    @property
    def scores(self) -> dict[str, float]:
        """The memory scores, NaN where there is none."""
        return {user: math.nan if score is None else score for user, score in self.by_user.items()}

    @property
    def mean(self) -> float:
        """Mean over users."""
        return nan_mean(list(self.scores.values()))


@dataclass(frozen=True, slots=True)
class Variant:
    """All searches of one variant beside those of the first."""

    name: str
    searches: tuple[Finished, ...]
    score: Estimate
    """For new users and new seeds."""
    difference: Estimate | None
    """This variant's score minus the first's, paired by user and seed; None for the first."""

    def mean(self, what: str) -> float:
        """Return the mean over searches of a figure of ``Finished``."""
        return statistics.fmean(getattr(search, what) for search in self.searches)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; what is not known is null."""
        return {
            "name": self.name,
            **_score_json(self.score),
            "difference": None if self.difference is None else _score_json(self.difference),
            **{what: round(self.mean(what), 1) for what in COLUMNS[2:]},
            "searches": [asdict(search) | {"memory_score": _known(search.mean)} for search in self.searches],
        }


def read_searches(runs: Sequence[Run]) -> dict[str, list[Finished]]:
    """Return the finished searches by variant, in the order of the runs."""
    found: dict[str, list[Finished]] = {}
    for run in runs:
        found.setdefault(run.variant, []).append(Finished.of(run))
    return found


def compare_variants(found: Mapping[str, Sequence[Finished]]) -> list[Variant]:
    """Compare each variant's searches with those of the first, under the same seeds on the same users."""
    first, *_ = found
    theirs = {search.seed: search.scores for search in found[first]}
    return [
        Variant(
            name,
            tuple(searches),
            estimate_repeated([search.scores for search in searches]),
            None if name == first else _difference(searches, theirs),
        )
        for name, searches in found.items()
    ]


def _difference(searches: Sequence[Finished], theirs: Mapping[int, Mapping[str, float]]) -> Estimate:
    paired = [
        {user: score - theirs[search.seed].get(user, math.nan) for user, score in search.scores.items()}
        for search in searches
        if search.seed in theirs
    ]
    return estimate_repeated(paired)


def write_comparison(variants: Sequence[Variant], out: Path, *, about: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``results.json``, ``table.md`` and ``plot.svg``; return what the first holds, ``about`` included."""
    out.mkdir(parents=True, exist_ok=True)
    told = [variant.as_json() for variant in variants]
    result = {**about, "variants": told}
    text = json.dumps(result, indent=2, ensure_ascii=False)
    (out / "results.json").write_text(text + "\n", encoding="utf-8")
    (out / "table.md").write_text(markdown(variants), encoding="utf-8")
    (out / "plot.svg").write_text(variants_plot(told) + "\n", encoding="utf-8")
    return result


def markdown(variants: Sequence[Variant]) -> str:
    """Return the comparison as a Markdown table."""
    lines = [f"| variant | {' | '.join(COLUMNS)} |", "|---" * (1 + len(COLUMNS)) + "|"]
    lines += [f"| {' | '.join([variant.name, _interval(variant.score), *_cells(variant)])} |" for variant in variants]
    return "\n".join(lines) + "\n"


def comparison_table(variants: Sequence[Variant], *, title: str) -> Table:
    """Return the comparison as a terminal's table."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("variant")
    for column in NARROW:
        table.add_column(column, justify="left" if column == "difference" else "right", no_wrap=True)
    for variant in variants:
        cells = variant.name, number(variant.score.mean), *_cells(variant)
        table.add_row(*map(Text, cells), style="bold" if variant.difference is None else None)
    return table


def _cells(variant: Variant) -> list[str]:
    """Return a variant's cells from its difference on."""
    return [
        "" if variant.difference is None else _interval(variant.difference),
        f"{variant.mean('candidates'):.0f}",
        f"{variant.mean('accepted'):.1f}",
        count(round(variant.mean("periods"))),
        count(round(variant.mean("calls"))),
        f"{variant.mean('seconds'):.0f}",
    ]


def _interval(value: Estimate) -> str:
    return with_interval(value.mean, [_known(value.low), _known(value.high)])


def _score_json(value: Estimate) -> dict[str, Any]:
    return {"memory_score": _known(value.mean), "interval": [_known(value.low), _known(value.high)]}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
