"""Evolve the memory policy of an assistant: its memory prompts and its numbers."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from .data.lazy import lazily

if TYPE_CHECKING:
    from .data import Scenario, load_scenarios, split_by_group
    from .env import Cast, DialogueTrack, Episode, Evaluation, Evaluator, Protocol, Track, rollout
    from .optimizer.views.frames import RunFrames, load_run
    from .policies import Assistant, MemoryPolicy, NotRemembered, SyncAssistant, dump_policy, load_policy, presets
    from .policies.deploy import MemoryStore
    from .policies.lm.base import Message
    from .policies.lm.embedded import EmbeddedModel
    from .policies.lm.lexical import LexicalEmbedder
    from .policies.lm.openai import OpenAIModel
    from .policies.lm.providers import open_embedder
    from .policies.memory import Memory, MemoryEvent, load_memory, open_memory, save_memory

__version__ = version("mnemotune")

__getattr__ = lazily(
    __name__,
    {
        "data": ("Scenario", "load_scenarios", "split_by_group"),
        "env": ("Cast", "DialogueTrack", "Episode", "Evaluation", "Evaluator", "Protocol", "Track", "rollout"),
        "optimizer.views.frames": ("RunFrames", "load_run"),
        "policies": (
            "Assistant",
            "MemoryPolicy",
            "NotRemembered",
            "SyncAssistant",
            "dump_policy",
            "load_policy",
            "presets",
        ),
        "policies.deploy": ("MemoryStore",),
        "policies.lm.base": ("Message",),
        "policies.lm.embedded": ("EmbeddedModel",),
        "policies.lm.openai": ("OpenAIModel",),
        "policies.lm.providers": ("open_embedder",),
        "policies.memory": ("Memory", "MemoryEvent", "load_memory", "open_memory", "save_memory"),
        "policies.lm.lexical": ("LexicalEmbedder",),
    },
)

__all__ = [
    "Assistant",
    "Cast",
    "DialogueTrack",
    "EmbeddedModel",
    "Episode",
    "Evaluation",
    "Evaluator",
    "LexicalEmbedder",
    "Memory",
    "MemoryEvent",
    "MemoryPolicy",
    "MemoryStore",
    "Message",
    "NotRemembered",
    "OpenAIModel",
    "Protocol",
    "RunFrames",
    "Scenario",
    "SyncAssistant",
    "Track",
    "dump_policy",
    "load_memory",
    "load_policy",
    "load_run",
    "load_scenarios",
    "open_embedder",
    "open_memory",
    "presets",
    "rollout",
    "save_memory",
    "split_by_group",
]
