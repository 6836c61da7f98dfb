"""Memory policies, and the assistants that run under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..data.lazy import lazily

if TYPE_CHECKING:
    from .assistant import Assistant, NotRemembered
    from .files import PolicyError, dump_policy, load_policy, presets
    from .policy import MemoryPolicy
    from .sync_assistant import SyncAssistant

__getattr__ = lazily(
    __name__,
    {
        "assistant": ("Assistant", "NotRemembered"),
        "files": ("PolicyError", "dump_policy", "load_policy", "presets"),
        "policy": ("MemoryPolicy",),
        "sync_assistant": ("SyncAssistant",),
    },
)

__all__ = [
    "Assistant",
    "MemoryPolicy",
    "NotRemembered",
    "PolicyError",
    "SyncAssistant",
    "dump_policy",
    "load_policy",
    "presets",
]
