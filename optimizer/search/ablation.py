"""Ablations: variants of one config, each searched under several seeds, compared on the same sealed users."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from ...data import Splits
from ...data.record import Record
from ...policies.files import policy_problems
from ...policies.lm.embedded.pool import end_with_parent
from ...policies.space import flat
from ..config import Choice, Config, ConfigError, NotNegative, SplitSizes, load_config
from ..models import track_of
from .allowance import splits_of
from .listener import Listener
from .outcome import open_run
from .run import evolve, prepare
from .sealed import EVOLVED

MakeListeners = Callable[[], Sequence[Listener]]
"""A function of a module, so that another process can call it."""
SAME = ("track", "track_options", "data", "splits", "rounds", "context_tokens")
"""Settings that all variants share, so that their sealed users can be paired."""


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
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from None
    if not isinstance(values, dict) or "variants" not in values:
        raise ConfigError(
            f"{path}: is no ablation: write `config: FILE`, `seeds: [0, 1, 2]` and "
            "`variants: {as it is: {}, no racing: {search.racing: false}}`"
        )
    try:
        return Ablation.model_validate(values | ({"seeds": list(seeds)} if seeds else {}))
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in policy_problems(error))) from None


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
    with _naming(variant):
        return load_config(base, overrides=overrides)


@contextmanager
def _naming(variant: str) -> Iterator[None]:
    """Say of which variant a ConfigError is."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError("\n".join(f"variants.{variant}: {line}" for line in str(error).splitlines())) from None


def slug(name: str) -> str:
    """Return a name fit for a folder."""
    return re.sub(r"\W+", "-", name).strip("-").lower() or "variant"


def carry_out(runs: Sequence[Run], *, listeners: MakeListeners, finished: Callable[[Run], None]) -> None:
    """Carry out all searches, stopped ones from where they stand; ``finished`` hears of each, also of those before.

    ``listeners`` is called for each search, in its own process. Where the models run on this machine, each core has a
    search; else searches follow each other, as each uses all requests that the endpoint allows.

    Before any search, raises ConfigError, ScenarioError or CheckpointError when a folder holds another run or a variant
    cannot be run. Later raises what ``evolve`` raises.
    """
    for run in runs:
        _check(run)
    _check_variants([run for run in runs if not _is_begun(run)], listeners())
    left = []
    for run in runs:
        if _is_done(run):
            finished(run)
        else:
            left.append(run)
    workers = min(len(left), (os.cpu_count() or 1) if all(run.config.per_core for run in runs) else 1)
    if workers < 2:
        for run in left:
            _search(run, listeners)
            finished(run)
        return
    executor = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), max_tasks_per_child=1, initializer=_end_without_a_word
    )
    try:
        under_way = {executor.submit(_search, run, listeners): run for run in left}
        for future in as_completed(under_way):
            future.result()
            finished(under_way[future])
    finally:
        executor.shutdown(cancel_futures=True)


def _end_without_a_word() -> None:
    """End this process on Ctrl-C and when its parent is killed; its search can go on later."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


def _search(run: Run, listeners: MakeListeners) -> None:
    begun = _is_begun(run)  # then the folder's config is the same, with the list prices that the run began with
    evolve(open_run(run.folder).config if begun else run.config, run.folder, listeners=listeners())


def _check_variants(runs: Sequence[Run], listeners: Sequence[Listener]) -> None:
    """Raise ConfigError naming the variant, ScenarioError or CheckpointError when a variant cannot be run."""
    dealt: dict[tuple[str, SplitSizes], Splits] = {}
    for variant, config in {run.variant: run.config for run in runs}.items():
        users = config.data, config.splits
        with _naming(variant):
            if users not in dealt:
                dealt[users] = splits_of(config)
            prepare(config, dealt[users], listeners)


def _is_begun(run: Run) -> bool:
    return (run.folder / "study.db").is_file()


def _check(run: Run) -> None:
    """Raise ConfigError when the run's folder holds a run with other settings."""
    if not _is_begun(run):
        return
    before = _without_list_prices(open_run(run.folder).config, given=run.config.endpoint.prices)
    values, others = flat(before.model_dump()), flat(run.config.model_dump())
    changed = [key for key in values | others if values.get(key) != others.get(key)]
    if changed:
        raise ConfigError(
            f"{run.folder}: holds a run with other settings ({', '.join(changed)}): choose another --out, "
            "or remove that folder"
        )


def _without_list_prices(config: Config, *, given: Collection[str]) -> Config:
    """Return a config without the prices that a run took from a published list; ``given`` models keep theirs."""
    prices = {name: p for name, p in config.endpoint.prices.items() if p.source is None or name in given}
    return config.model_copy(update={"endpoint": config.endpoint.model_copy(update={"prices": prices})})


def _is_done(run: Run) -> bool:
    return (run.folder / "result.json").is_file() and EVOLVED in open_run(run.folder).test.rows
