"""Keys of a config that change nothing in its search, and variants that cannot differ for that reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...policies.space import flat
from ..config import Config, SearchConfig

ALWAYS = ("search.seed", "search.budget", "search.generations", "search.objective")
"""What matters even where nothing is searched."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Keys that change nothing under some configs."""

    keys: tuple[str, ...]
    """A key stands for all below it."""
    holds: Callable[[SearchConfig], bool]
    """Whether they change nothing."""
    why: str


def _rest(*names: str) -> Callable[[SearchConfig], bool]:
    """Return what tells whether none of these proposers is at work."""
    return lambda search: not search.at_work.keys() & set(names)


def _prompts_stay(search: SearchConfig) -> bool:
    return not any(search.prompts and kind.prompts for kind in search.at_work.values())


def _numbers_stay(search: SearchConfig) -> bool:
    return not search.changes_numbers


IDLE = (
    Idle(("generation",), lambda search: True, "it is for `data generate`"),
    Idle(("search",), lambda search: search.generations == 0, "with search.generations 0 nothing is searched"),
    Idle(("search.routing",), _rest("reflective"), "the proposer reflective is not at work"),
    Idle(
        ("search.failures_shown", "proposer_model"),
        _rest("reflective", "gepa"),
        "neither reflective nor gepa is at work",
    ),
    Idle(("search.prompts", "search.slots"), _prompts_stay, "no proposer at work changes prompts"),
    Idle(("search.numbers", "search.space"), _numbers_stay, "no proposer at work changes numbers"),
    Idle(("search.broad_start",), lambda search: search.broad == 0, "the first generation has no broad start"),
    Idle(("search.race_block",), lambda search: not search.racing, "search.racing is false"),
    Idle(("search.veto",), lambda search: search.acceptance == "train", "search.acceptance is train"),
)


@dataclass(frozen=True, slots=True)
class Twins:
    """Two variants that cannot differ."""

    first: str
    second: str
    idle: Mapping[str, str]
    """Why each key that differs changes nothing, by key; empty where no key differs."""

    def __str__(self) -> str:
        """Say so in a sentence."""
        if not self.idle:
            return f"{self.second!r} cannot differ from {self.first!r}: both are the same config"
        reasons = "; ".join(f"{key} has no effect here: {why}" for key, why in self.idle.items())
        return f"{self.second!r} cannot differ from {self.first!r}: {reasons}"


def twins(variants: Mapping[str, Config]) -> Iterator[Twins]:
    """Yield each variant that cannot differ from an earlier one, with the first such."""
    resolved = {name: _resolved(config) for name, config in variants.items()}
    names = list(variants)
    for i, second in enumerate(names):
        for first in names[:i]:
            values, others = resolved[first], resolved[second]
            changed = [key for key in values | others if values.get(key) != others.get(key)]
            reasons = {key: why_idle(key, variants[first], variants[second]) for key in changed}
            if all(reasons.values()):
                yield Twins(first, second, reasons)
                break


def why_idle(key: str, *configs: Config) -> str:
    """Say why a key changes nothing under any of these configs; empty where it may change something."""
    if key == "search.proposers" and len({tuple(config.search.at_work) for config in configs}) == 1:
        return "the same proposers are at work"
    if key in {"search.racing", "search.race_block"} and all(_races_at_once(config) for config in configs):
        return "a race's first look takes in all train groups"
    for idle in IDLE:
        covered = any(key == part or key.startswith(f"{part}.") for part in idle.keys)
        kept = idle.keys == ("search",) and any(key == part or key.startswith(f"{part}.") for part in ALWAYS)
        if covered and not kept and all(idle.holds(config.search) for config in configs):
            return idle.why
    return ""


def _races_at_once(config: Config) -> bool:
    """Tell whether a race's first look comes when all train groups are met, as without racing."""
    return config.search.race_block >= config.splits.train and not config.search.broad


def _resolved(config: Config) -> dict[str, Any]:
    """Return a config by dotted key, with who plays each part in place of what stands for it."""
    named = {"user_model": config.models["user"], "proposer_model": config.models["proposer"]}
    return flat(config.model_copy(update=named).model_dump(mode="json"))
