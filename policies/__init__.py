"""Memory policies, and the assistants that run under them."""

from .assistant import Assistant
from .files import PolicyError, dump_policy, load_policy, presets
from .policy import MemoryPolicy

__all__ = [
    "Assistant",
    "MemoryPolicy",
    "PolicyError",
    "dump_policy",
    "load_policy",
    "presets",
]
