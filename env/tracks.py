"""Tracks by name: this package's own, and those that other packages register."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from ..policies.prompts import Templates
from .dialogue.protocol import Protocol
from .dialogue.track import DialogueTrack
from .track import Track, TrackError

GROUP = "mnemotune.tracks"
"""The entry points by which other packages register theirs: each names a ``MakeTrack``."""

MakeTrack = Callable[[Templates, Mapping[str, Any]], Track]
"""Makes a track from the environment's texts and from the options of a config."""


def _dialogue(templates: Templates, options: Mapping[str, Any]) -> Track:
    init, update = options.get("rounds", (1, 2))
    return DialogueTrack(Protocol(init, update, templates, frozenset(options.get("compat", ()))))


OWN: Mapping[str, MakeTrack] = {"dialogue": _dialogue}


def track_names() -> list[str]:
    """Return the names of all tracks there are."""
    return sorted({*OWN, *(entry.name for entry in entry_points(group=GROUP))})


def open_track(name: str, *, templates: Templates, options: Mapping[str, Any]) -> Track:
    """Make the track of this name. Raises TrackError, naming those there are, when there is none."""
    make = OWN.get(name)
    if make is None:
        found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
        if not found:
            raise TrackError(f"track: {name!r} is no track; there are {', '.join(track_names())}")
        make = found[0].load()
    return make(templates, options)
