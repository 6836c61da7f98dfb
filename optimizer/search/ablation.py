"""Ablations: variants of one config, each searched under several seeds, compared on the same sealed users."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from ...data.record import Record
from ...data.yaml_texts import parse_yaml, read_utf8
from ...env.statistics import Estimate, estimate_repeated, nan_mean
from ...env.summary import Figure, Summary, json_number, score_json
from ...policies.files import WINDOW, policy_problems
from ..config import Choice, Config, ConfigError, NotNegative, load_config
from ..models import track_of
from .outcome import open_run
from .sealed import EVOLVED

PLAYED = ("track", "track_options", "rounds", "context_tokens", "compat")
"""Settings that say what is played, and how: what is compared shares them."""
SAME = (*PLAYED, "data", "test_data", "splits")
"""Settings that all variants share, so that their sealed users can be paired."""
TOOK = ("candidates", "accepted", "periods", "calls", "seconds")
"""What a variant took, means over its searches; the sealed test is in the seconds alone."""


class Ablation(Record):
    """What an ablation's file holds."""

    config: str
    """The config that the variants are made from, looked for beside the file first."""
    seeds: Choice[NotNegative] = (0, 1, 2, 3, 4)
    """The searches' seeds; each variant is run once with each."""
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    """By name, the changes: dotted keys of a config with their values. All others are compared with the first."""


@dataclass(frozen=True, slots=True)
class Run:
    """One search of an ablation."""

    variant: str
    seed: int
    config: Config
    folder: Path


def load_ablation(path: Path, *, seeds: Sequence[int] = ()) -> Ablation:
    """Read an ablation's file; ``seeds`` replace its own. Raises ConfigError naming the file and the key."""
    try:
        values = parse_yaml(read_utf8(path))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(values, dict) or "variants" not in values:
        raise ConfigError(
            f"{path}: is no ablation: write `config: FILE`, `seeds: [0, 1, 2]` and "
            "`variants: {as it is: {}, no racing: {search.racing: false}}`"
        )
    try:
        return Ablation.model_validate(values | ({"seeds": list(seeds)} if seeds else {}))
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in policy_problems(error, Ablation))) from None


def runs_of(ablation: Ablation, *, beside: Path, out: Path, overrides: Sequence[str] = ()) -> list[Run]:
    """Return the searches of an ablation, seed by seed; ``overrides`` hold for all variants.

    ``beside`` is the folder in which the config is looked for first. Raises ConfigError naming the variant at fault.
    """
    near = beside / ablation.config
    base = near if near.is_file() else ablation.config
    first, *others = ablation.variants
    variants = {name: [*overrides, *as_overrides(changes)] for name, changes in ablation.variants.items()}
    configs = {name: _config(base, name, changes) for name, changes in variants.items()}
    for name in others:
        changed = [part for part in SAME if getattr(configs[name], part) != getattr(configs[first], part)]
        if changed:
            raise ConfigError(
                f"variants.{name}: {', '.join(changed)} cannot differ from those of {first!r}: "
                f"variants are compared on the same sealed {track_of(configs[first]).noun}s"
            )
    places = {name: slug(name) for name in ablation.variants}
    if len(set(places.values())) < len(places):
        raise ConfigError("variants: two names make the same folder name; change one of them")
    runs = []
    for seed, (name, config) in product(ablation.seeds, configs.items()):
        search = config.search.model_copy(update={"seed": seed})
        runs.append(Run(name, seed, config.model_copy(update={"search": search}), out / f"{places[name]}-{seed}"))
    return runs


def as_overrides(changes: Mapping[str, Any]) -> list[str]:
    """Return changes by dotted key as ``load_config`` takes them."""
    return [f"{key}={json.dumps(value)}" for key, value in changes.items()]


def _config(base: str | Path, variant: str, overrides: Sequence[str]) -> Config:
    seeded = [override for override in overrides if override.startswith("search.seed=")]
    if seeded:
        raise ConfigError(f"variants.{variant}: {seeded[0]}: seeds are given by `seeds`, or --seeds")
    with naming(variant):
        return load_config(base, overrides=overrides)


@contextmanager
def naming(variant: str) -> Iterator[None]:
    """Say of which variant a ConfigError is."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError("\n".join(f"variants.{variant}: {line}" for line in str(error).splitlines())) from None


def slug(name: str) -> str:
    """Return a name fit for a folder."""
    return re.sub(r"\W+", "-", name).strip("-").lower() or "variant"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a finished search found, and what it took."""

    seed: int
    run: str
    """Its folder."""
    by_group: Mapping[str, Figure]
    """Memory score of its best policy by sealed group; empty where the budget ended before the test."""
    window: Mapping[str, Figure]
    """The same of the newest messages that fit, nothing written."""
    evidence: Mapping[str, Figure]
    """Evidence recall of its best policy by sealed group; NaN or absent where it is not known."""
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
        evolved, window = (rows.get(name) or Summary(policy=name) for name in (EVOLVED, WINDOW))
        return cls(
            seed=run.seed,
            run=str(run.folder),
            by_group=evolved.by_group,
            window=window.by_group,
            evidence=evolved.evidence_by_group,
            candidates=len({trial.policy for trial in trials[1:] if trial.series} - {trials[0].policy}),
            accepted=sum(trial.accepted for trial in trials[1:]),
            periods=sum(trial.periods for trial in trials),
            calls=outcome.search_spend.total.calls,
            seconds=round(outcome.consumed.seconds, 1),
        )

    @property
    def both(self) -> dict[str, float]:
        """Mean of memory score and evidence recall by sealed group; NaN where either is not known."""
        return {group: (score + self.evidence.get(group, math.nan)) / 2 for group, score in self.by_group.items()}

    @property
    def mean(self) -> float:
        """Mean over groups."""
        return nan_mean(list(self.by_group.values()))

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; NaN becomes null."""
        values: dict[str, Any] = FINISHED.dump_python(self)
        return values | {"memory_score": json_number(self.mean)}

    @classmethod
    def from_json(cls, values: Any) -> Finished:
        """Return what ``as_json`` said. Raises ValidationError naming the field at fault."""
        return FINISHED.validate_python(values)


FINISHED = TypeAdapter(Finished)


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure of one variant's evolved policies, beside the first variant's."""

    estimate: Estimate
    """For new users and new seeds; NaN where the figure is not known."""
    difference: Estimate | None
    """This variant's minus the first's, paired by user and seed; None for the first."""

    def as_json(self, name: str) -> dict[str, Any]:
        """Return plain JSON values: the estimate under the figure's name, the difference under `difference`."""
        difference = None if self.difference is None else score_json(self.difference, name)
        return {**score_json(self.estimate, name), "difference": difference}


@dataclass(frozen=True, slots=True)
class Variant:
    """All searches of one variant beside those of the first."""

    name: str
    searches: tuple[Finished, ...]
    score: Compared
    """Memory score."""
    over_window: Estimate
    """The evolved policies' scores minus the window's, paired by user and seed."""
    evidence: Compared
    """Evidence recall."""
    both: Compared
    """The mean of memory score and evidence recall."""

    def mean(self, what: str) -> float:
        """Return the mean over searches of a figure of ``Finished``."""
        return statistics.fmean(getattr(search, what) for search in self.searches)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; what is not known is null."""
        return {
            "name": self.name,
            **self.score.as_json("memory_score"),
            "over_window": score_json(self.over_window),
            "evidence": self.evidence.as_json("evidence_recall"),
            "both": self.both.as_json("mean_of_both"),
            **{what: round(self.mean(what), 1) for what in TOOK},
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
    theirs = {search.seed: search for search in by_variant[first]}

    def compared(name: str, figure: str) -> Compared:
        searches = by_variant[name]
        estimate = estimate_repeated([getattr(search, figure) for search in searches])
        if name == first:
            return Compared(estimate, None)
        paired = [search for search in searches if search.seed in theirs]
        beyond = [_beyond(getattr(s, figure), getattr(theirs[s.seed], figure)) for s in paired]
        return Compared(estimate, estimate_repeated(beyond))

    return [
        Variant(
            name=name,
            searches=tuple(searches),
            score=compared(name, "by_group"),
            over_window=estimate_repeated([_beyond(search.by_group, search.window) for search in searches]),
            evidence=compared(name, "evidence"),
            both=compared(name, "both"),
        )
        for name, searches in by_variant.items()
    ]


def _beyond(scores: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return {group: score - others.get(group, math.nan) for group, score in scores.items()}
