"""Memories by name: a policy says which one it is for."""

from __future__ import annotations

from collections.abc import Callable

from ...data.registry import Registry
from ..lm.base import Embedder, LanguageModel
from ..policy import MemoryPolicy
from .budget import Budgeted
from .builtin import BuiltinMemory
from .protocol import Memory

Backend = Callable[[MemoryPolicy, LanguageModel, Embedder], Memory]
"""Makes an empty memory under a policy."""

BUILTIN = "builtin"
MEMORIES: Registry[Backend] = Registry("memory", "mnemotune.memories", {BUILTIN: BuiltinMemory})


def open_memory(policy: MemoryPolicy, model: LanguageModel, embedder: Embedder) -> Memory:
    """Return an empty memory of the kind that the policy names, under it and kept within its tokens.

    Raises UnknownPartError when nothing is registered under that name.
    """
    return Budgeted(MEMORIES.get(BUILTIN)(policy, model, embedder))
