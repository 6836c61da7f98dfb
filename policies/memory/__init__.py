"""Memories: what runs under a memory policy, the memory that is built in, and the tests that every memory passes."""

from .backends import MEMORIES, open_memory
from .builtin import BuiltinMemory
from .protocol import Context, Item, Memory, MemoryEvent

__all__ = [
    "MEMORIES",
    "BuiltinMemory",
    "Context",
    "Item",
    "Memory",
    "MemoryEvent",
    "open_memory",
]
