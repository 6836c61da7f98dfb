"""What commands share: their settings, and models at work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...data.task import Task
from ...env import Track
from ...policies.files import WINDOW, load_policy
from ...policies.policy import MemoryPolicy
from ..config import Config, ConfigError, load_config, parse_config
from ..models import Models, pinned, priced, track_of

T = TypeVar("T")


def settings_of(path: Path | None, **given: str | int | None) -> Config:
    """Return a config with what the command line has ``given``; what belongs to a search is not used."""
    unused = {"data": "", "splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": "native"}
    overrides = [f"{name}={json.dumps(value)}" for name, value in given.items() if value is not None]
    if path is None:
        return priced(parse_config("{}", where="command line", overrides=overrides, defaults=unused))
    return priced(load_config(path, overrides=overrides, defaults=unused))


def track_and_settings(path: Path | None, **given: str | int | None) -> tuple[Track, Config]:
    """Return a config's track, and the config with what is usual there for what nobody has said."""
    settings = settings_of(path, **given)
    track = track_of(settings)
    if "context_tokens" in settings.model_fields_set:
        return track, settings
    return track, settings.model_copy(update={"context_tokens": track.usual.context_tokens})


def data_of(track: Track, data: str | None) -> str:
    """Return a source of tasks, by default the track's usual one, as ``pinned`` has it. Raises ConfigError."""
    source = data or track.usual.data
    if source is None:
        raise ConfigError(f"--data: the track {track.name} has no data of its own; name some")
    return pinned(track, source)


def load_tasks(track: Track, data: str, groups: str | None) -> Sequence[Task]:
    """Return the tasks of a source, those of ``groups`` where some are named. Raises TaskError."""
    return track.load(data, groups=None if groups is None else [group.strip() for group in groups.split(",")])


def policies_named(names: Sequence[str], settings: Config, *, window: bool) -> dict[str, MemoryPolicy]:
    """Return presets and policy files by name, with the window where it is to be compared with and not named itself."""
    policies = {name: load_policy(name, templates=settings.templates) for name in names}
    reference = load_policy(WINDOW, templates=settings.templates)
    return policies | ({WINDOW: reference} if window and reference not in policies.values() else {})


def run_with(models: Models, work: Coroutine[Any, Any, T]) -> T:
    """Do what needs models, and release them."""

    async def run() -> T:
        try:
            return await work
        finally:
            await models.aclose()

    return asyncio.run(run())
