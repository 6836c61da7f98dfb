"""Memories: what runs under a memory policy, the memory that is built in, and the tests that every memory passes."""

from .backends import MEMORIES, Backend, open_memory
from .builtin import BuiltinMemory
from .protocol import Context, Item, Memory, MemoryEvent
from .stores import Entry, MemoryState

__all__ = [
    "MEMORIES",
    "Backend",
    "BuiltinMemory",
    "Context",
    "Entry",
    "Item",
    "Memory",
    "MemoryEvent",
    "MemoryState",
    "open_memory",
]
