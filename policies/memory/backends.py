"""Memories by name: a policy says which one it is for."""

from __future__ import annotations

from collections.abc import Callable

from ...data.registry import Registry
from ..lm.base import Embedder, LanguageModel
from ..lm.client import Client, as_model
from ..policy import MemoryPolicy
from ..space import BUILTIN
from .builtin import BuiltinMemory
from .core import CoreMemory
from .entities import EntityMemory
from .episodes import EpisodeMemory
from .graph import GraphMemory
from .notes import NoteMemory
from .packages.memory import AMemMemory, LangMemMemory, Mem0GraphMemory, Mem0Memory, NemoriMemory
from .playbook import PlaybookMemory
from .protocol import Memory

Backend = Callable[[MemoryPolicy, LanguageModel, Embedder], Memory]
"""Makes an empty memory under a policy."""

SHIPPED: dict[str, Backend] = {
    BUILTIN: BuiltinMemory,
    "linked-facts": EntityMemory,
    "linked-notes": NoteMemory,
    "playbook": PlaybookMemory,
    "core-and-archive": CoreMemory,
    "graph": GraphMemory,
    "episodes": EpisodeMemory,
    "mem0ai": Mem0Memory,
    "mem0ai-kuzu": Mem0GraphMemory,
    "langmem": LangMemMemory,
    "a-mem-package": AMemMemory,
    "nemori-package": NemoriMemory,
}
MEMORIES: Registry[Backend] = Registry("memory", "mnemotune.memories", SHIPPED)


def open_memory(
    policy: MemoryPolicy, model: LanguageModel | Client, embedder: Embedder, *, model_name: str | None = None
) -> Memory:
    """Return an empty memory of the kind that the policy names, under it.

    ``model`` writes; an ``openai.AsyncOpenAI`` needs a ``model_name``. Raises UnknownPartError when nothing is
    registered under the policy's backend.
    """
    return MEMORIES.get(policy.backend or BUILTIN)(policy, as_model(model, model_name), embedder)
