"""Memory policies, and the assistants that run under them."""

from .assistant import Assistant
from .files import PolicyError, dump_policy, load_policy, presets
from .memory import Memory, MemoryEvent, MemoryState
from .policy import MemoryPolicy

__all__ = [
    "Assistant",
    "Memory",
    "MemoryEvent",
    "MemoryPolicy",
    "MemoryState",
    "PolicyError",
    "dump_policy",
    "load_policy",
    "presets",
]
