"""Go on with a run that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from ..config import Config, ConfigError, SearchConfig, load_config
from .listener import Listener
from .outcome import Outcome, open_run
from .run import evolve

FIXED = (
    *("track", "track_options", "context_tokens"),
    *("data", "splits.train", "splits.validation", "splits.test", "splits.seed"),
    *("model", "user_model", "embedder", "rounds", "templates", "compat", "seed_policy", "search.seed"),
    "search.acceptance",
    *("search.off_policy", "search.broad_start", "search.screening"),
)
"""Settings that stay when a run goes on. Otherwise users that the search has learned from could get into the sealed
test, or validation scores could be missing."""


def resume(folder: Path, *, overrides: Sequence[str] = (), listeners: Sequence[Listener]) -> Outcome:
    """Go on with the run in ``folder`` under its own config; ``overrides`` may change how far it goes.

    Raises ConfigError when there is no run, or when the overrides would make it another run.
    """
    before = open_run(folder)
    config = load_config(folder / "config.yaml", overrides=overrides)
    if before.test.done and config != before.config:
        raise ConfigError(f"{folder}: this run is over, and its config stays as it is; start another run")
    changed = [name for name in FIXED if _value(config, name) != _value(before.config, name)]
    if changed:
        raise ConfigError(f"{folder}: a run goes on with what it began with, so {', '.join(changed)} cannot change")
    if before.ended is not None:
        _check_search_is_the_same(folder, config.search, before.config.search)
    return evolve(config, folder, listeners=listeners)


def _check_search_is_the_same(folder: Path, now: SearchConfig, before: SearchConfig) -> None:
    """Raise ConfigError when more than the budget of a search that is over was changed: it would have no effect."""
    names = [name for name in SearchConfig.model_fields if getattr(now, name) != getattr(before, name)]
    changed = ", ".join(f"search.{name}" for name in names if name != "budget")
    if changed:
        raise ConfigError(
            f"{folder}: the search of this run is over and only its sealed test is left, so that {changed} cannot "
            "change any more; --resume it without, or start another run"
        )


def _value(config: Config, name: str) -> object:
    return reduce(getattr, name.split("."), config)
