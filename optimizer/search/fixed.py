"""What a run has begun with, and goes on with."""

from __future__ import annotations

import json
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from ..config import Config, ConfigError
from ..study import Study

FIXED = (
    *("track", "track_options", "context_tokens"),
    *("data", "test_data", "splits.train", "splits.validation", "splits.test", "splits.seed"),
    *("model", "user_model", "embedder", "rounds", "templates", "compat", "seed_policy", "search.seed"),
    *("search.acceptance", "search.off_policy", "search.broad_start", "search.screening", "search.most_stored"),
)
"""Settings that stay when a run goes on. Otherwise users that the search has learned from could get into the sealed
test, validation scores could be missing, or trials would be judged in two ways."""
FIXED_NOTE = "fixed"
"""The study's note of these settings: a config that was edited by hand says another thing."""


def settings_of(config: Config) -> dict[str, Any]:
    """Return the settings that stay, by name, as JSON values."""
    values = json.loads(config.model_dump_json())
    settings = {name: reduce(getitem, name.split("."), values) for name in FIXED}
    return settings | {"search.objective": config.search.aim.compared}


def refuse_changes(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise ConfigError, naming them, where settings that stay are others than before."""
    changed = [name for name, value in now.items() if name in before and before[name] != value]
    if changed:
        raise ConfigError(
            f"{folder}: a run goes on with what it began with, so {', '.join(changed)} cannot change; "
            "change it back, or start another run"
        )


def hold(folder: Path, study: Study, config: Config) -> None:
    """Note the settings that stay when a run begins; raise ConfigError where they are others than were noted."""
    now, before = settings_of(config), study.noted(FIXED_NOTE)
    if before is None:
        study.note(FIXED_NOTE, now)
    else:
        refuse_changes(folder, before, now)
