"""Tracks by name: this package's own, and those that other packages register."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..data.registry import Registry
from ..policies.prompts import Templates
from .codeqa.track import CodeTrack
from .dialogue.protocol import Protocol
from .dialogue.track import DialogueTrack
from .tools.track import ToolsTrack
from .track import Track

MakeTrack = Callable[[Templates, Mapping[str, Any]], Track]
"""Makes a track from the environment's texts and the options of a config. Raises ValueError for an option at fault."""


def _dialogue(templates: Templates, options: Mapping[str, Any]) -> Track:
    if unknown := sorted(options.keys() - {"rounds", "compat"}):
        raise ValueError(f"the dialogue has no option {', '.join(unknown)}")
    init, update = options.get("rounds", (1, 2))
    return DialogueTrack(Protocol(init, update, templates, frozenset(options.get("compat", ()))))


def _codeqa(templates: Templates, options: Mapping[str, Any]) -> Track:
    if unknown := sorted(options.keys() - {"rounds", "compat"}):  # what every config has, for the dialogue
        raise ValueError(f"the codeqa track has no option {', '.join(unknown)}")
    return CodeTrack(templates)


def _tools(templates: Templates, options: Mapping[str, Any]) -> Track:
    if unknown := sorted(options.keys() - {"rounds", "compat"}):  # what every config has, for the dialogue
        raise ValueError(f"the tools track has no option {', '.join(unknown)}")
    return ToolsTrack(templates)


TRACKS: Registry[MakeTrack] = Registry(
    "track", "mnemotune.tracks", {"codeqa": _codeqa, "dialogue": _dialogue, "tools": _tools}
)
