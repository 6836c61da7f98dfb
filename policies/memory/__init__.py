"""Memories: what runs under a memory policy, the memory that is built in, and the tests that every memory passes."""

from .backends import MEMORIES, open_memory
from .builtin import BuiltinMemory
from .protocol import Context, Item, Memory, MemoryEvent, MemoryFault
from .saving import Savable, SavedMemoryError, dump_memory, load_memory, restore_memory, save_memory

__all__ = [
    "MEMORIES",
    "BuiltinMemory",
    "Context",
    "Item",
    "Memory",
    "MemoryEvent",
    "MemoryFault",
    "Savable",
    "SavedMemoryError",
    "dump_memory",
    "load_memory",
    "open_memory",
    "restore_memory",
    "save_memory",
]
