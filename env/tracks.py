"""Tracks by name: this package's own, and those that other packages register."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ..data.registry import Registry
from ..policies.prompts import Templates
from .agent import AGENTS, MODEL
from .track import Track

# each track is imported when it is asked for: a run has one, and a help text none

MakeTrack = Callable[[Templates, Mapping[str, Any]], Track]
"""Makes a track from the environment's texts and the options of a config. Raises ValueError for an option at fault."""


def _dialogue(templates: Templates, options: Mapping[str, Any]) -> Track:
    from .dialogue.protocol import Protocol
    from .dialogue.track import DialogueTrack

    _check_options("dialogue", options)
    init, update = options.get("rounds", (1, 2))
    return DialogueTrack(Protocol(init, update, templates, frozenset(options.get("compat", ()))))


def _codeqa(templates: Templates, options: Mapping[str, Any]) -> Track:
    from .codeqa.track import CodeTrack

    _check_options("codeqa track", options)
    return CodeTrack(templates)


def _conversations(templates: Templates, options: Mapping[str, Any]) -> Track:
    from .conversations.track import JUDGES, ConversationsTrack

    _check_options("conversations track", options, others={"judge"})
    judge = options.get("judge", JUDGES[0])
    if judge not in JUDGES:
        raise ValueError(f"judge: there is no {judge!r}; there are {', '.join(JUDGES)}")
    return ConversationsTrack(templates, judge=judge)


def _research(templates: Templates, options: Mapping[str, Any]) -> Track:
    from .research.model import ModelResearchTrack
    from .research.track import ResearchTrack

    _check_options("research track", options, agents=AGENTS)
    return ModelResearchTrack(templates) if options.get("agent") == MODEL else ResearchTrack(templates)


def _swe(templates: Templates, options: Mapping[str, Any]) -> Track:
    from .swe.model import ModelSweTrack
    from .swe.track import SweTrack

    _check_options("swe track", options, agents=AGENTS)
    return ModelSweTrack(templates) if options.get("agent") == MODEL else SweTrack(templates)


def _tools(templates: Templates, options: Mapping[str, Any]) -> Track:
    from .tools.model import ModelToolsTrack
    from .tools.track import ToolsTrack

    _check_options("tools track", options, agents=AGENTS)
    return ModelToolsTrack(templates) if options.get("agent") == MODEL else ToolsTrack(templates)


def _web(templates: Templates, options: Mapping[str, Any]) -> Track:
    from .web.model import ModelWebTrack
    from .web.prefix import Prefix
    from .web.track import WebTrack

    _check_options("web track", options, agents=AGENTS, others={"prefix", "from"})
    prefix = Prefix.of(options)
    if options.get("agent") == MODEL:
        return ModelWebTrack(templates, prefix=prefix)
    if prefix is not None:
        raise ValueError("a planned agent follows its plan from the beginning: prefix goes with web:model")
    return WebTrack(templates)


def _check_options(
    track: str, options: Mapping[str, Any], *, agents: Sequence[str] = (), others: AbstractSet[str] = frozenset()
) -> None:
    # rounds and compat are what every config has, for the dialogue
    if unknown := sorted(options.keys() - {"rounds", "compat", "agent"} - others):
        raise ValueError(f"the {track} has no option {', '.join(unknown)}")
    agent = options.get("agent")
    if agent is not None and agent not in agents:
        known = f"there are {', '.join(agents)}" if agents else "nobody acts there"
        raise ValueError(f"the {track} has no agent {agent!r}; {known}")


SHIPPED: Mapping[str, MakeTrack] = {
    "codeqa": _codeqa,
    "conversations": _conversations,
    "dialogue": _dialogue,
    "research": _research,
    "swe": _swe,
    "tools": _tools,
    "web": _web,
}
TRACKS: Registry[MakeTrack] = Registry("track", "mnemotune.tracks", SHIPPED)
