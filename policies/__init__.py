"""Memory policies, and the assistants that run under them."""

from .assistant import Assistant
from .files import PolicyError, dump_policy, load_policy, presets
from .memory import Context, Memory, MemoryEvent, MemoryState, open_memory
from .policy import MemoryPolicy

__all__ = [
    "Assistant",
    "Context",
    "Memory",
    "MemoryEvent",
    "MemoryPolicy",
    "MemoryState",
    "PolicyError",
    "dump_policy",
    "load_policy",
    "open_memory",
    "presets",
]
