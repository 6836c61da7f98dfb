"""Some keys of a config that change nothing, and variants that cannot differ for that reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...policies.space import flat
from ..config import Config
from ..proposer_kinds import SHIPPED

Holds = Callable[[Config], bool]
UNSEARCHED = ("seed", "budget", "generations", "objective", "acceptance", "off_policy", "screening")
"""What matters of ``search`` even where nothing is searched: how the seed policy is judged, and what that takes."""
FIRST_LOOK = "a race's first look takes in all train groups"


@dataclass(frozen=True, slots=True)
class Idle:
    """Keys that change nothing under some configs."""

    keys: tuple[str, ...]
    """A key stands for all below it."""
    holds: Holds
    """Whether they change nothing."""
    why: str
    apart: tuple[str, ...] = ()
    """Keys below that may change something all the same."""

    def covers(self, key: str) -> bool:
        """Tell whether a key is among them."""
        return _is_below(key, self.keys) and not _is_below(key, self.apart)


def _rest(*names: str) -> Holds:
    """Return what tells whether none of these proposers is at work."""
    return lambda config: not config.search.at_work.keys() & set(names)


def _prompts_stay(config: Config) -> bool:
    search = config.search
    return not any(search.prompts and kind.prompts for kind in search.at_work.values())


def _races_at_once(config: Config) -> bool:
    """Tell whether a race's first look comes when all train groups are met, as without racing.

    A broad start's candidates then race together with racing and in turn without, which changes no score.
    """
    return not config.search.racing or config.search.race_block >= config.splits.train


def _is_untimed(config: Config) -> bool:
    """Tell whether no limit depends on how fast a run is."""
    return config.search.budget.seconds is None


def _broad_start_ends(config: Config) -> bool:
    """Tell whether there is no broad start, or no budget that can end within it."""
    return not config.search.broad or not config.search.budget.model_dump(exclude_none=True)


ALWAYS = (
    Idle(("generation",), lambda config: True, "it is for `data generate`"),
    Idle(("tracking",), lambda config: True, "it says where a run is shown"),
    Idle(("workers",), _is_untimed, "the results are the same everywhere"),
    Idle(
        ("search", "proposer_model"),
        lambda config: config.search.generations == 0,
        "with search.generations 0 nothing is searched",
        apart=tuple(f"search.{name}" for name in UNSEARCHED),
    ),
)
"""What holds whoever proposes."""
WITH_SHIPPED = (
    Idle(("search.routing",), _rest("reflective"), "the proposer reflective is not at work"),
    Idle(
        ("search.failures_shown", "proposer_model"),
        _rest("reflective", "gepa"),
        "neither reflective nor gepa is at work",
    ),
    Idle(("search.prompts", "search.slots"), _prompts_stay, "no proposer at work changes prompts"),
    Idle(
        ("search.numbers", "search.space"),
        lambda config: not config.search.changes_numbers,
        "no proposer at work changes numbers",
    ),
    Idle(("search.broad_start",), lambda config: not config.search.broad, "the first generation has no broad start"),
    Idle(("search.race_block",), lambda config: not config.search.racing, "search.racing is false"),
    Idle(("search.race_block",), _races_at_once, FIRST_LOOK),
    Idle(("search.racing",), lambda config: _races_at_once(config) and _broad_start_ends(config), FIRST_LOOK),
    Idle(
        ("search.racing",),
        lambda config: _races_at_once(config) and _is_untimed(config),
        f"{FIRST_LOOK}, and only a budget that ends within the broad start can tell them apart",
    ),
    Idle(("search.veto",), lambda config: config.search.acceptance == "train", "search.acceptance is train"),
)
"""What holds where every proposer at work ships with the package: another's may read all of ``search``."""


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
    if key == "search.space.update_every" and any(config.search.budget.calls for config in configs):
        return ""  # how many calls are put aside for the sealed test depends on it
    are_shipped = all(config.search.at_work.keys() <= SHIPPED.keys() for config in configs)
    if key == "search.proposers" and are_shipped and len({tuple(config.search.at_work) for config in configs}) == 1:
        return "the same proposers are at work"
    rules = ALWAYS + WITH_SHIPPED if are_shipped else ALWAYS
    return next((idle.why for idle in rules if idle.covers(key) and all(map(idle.holds, configs))), "")


def _is_below(key: str, parts: tuple[str, ...]) -> bool:
    return any(key == part or key.startswith(f"{part}.") for part in parts)


def _resolved(config: Config) -> dict[str, Any]:
    """Return a config by dotted key, with who plays each part in place of what stands for it."""
    named = {"user_model": config.models["user"], "proposer_model": config.models["proposer"]}
    return flat(config.model_copy(update=named).model_dump(mode="json"))
