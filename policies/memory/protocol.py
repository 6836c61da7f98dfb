"""What every memory can do, and the values that it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from ...data.errors import MnemotuneError
from ...data.values import Values
from ..lm.base import Message
from ..policy import MemoryPolicy
from ..prompts import render


@dataclass(frozen=True, slots=True)
class Item:
    """One memory as it is shown."""

    id: str
    """Its name within its memory; it stays the same while the memory is updated."""
    text: str
    rank: int = 0
    """0 is the last item to be left out: the most relevant to the query, or without a query the newest write."""
    pinned: bool = False
    """Whether every item that is not pinned is left out before it."""


@dataclass(frozen=True)
class Context:
    """What a memory puts before a query."""

    items: tuple[Item, ...] = ()
    """In the order in which they are shown."""
    messages: tuple[Message, ...] = ()
    """The pinned start of the task and then the buffer, oldest first; they are shown after the items."""
    template: str | None = None
    """The system prompt that shows the items. Slot: {memories}. None: there is no system prompt, and no item."""
    left_out: int = 0
    """Items, messages, and tool calls with their results, that did not fit."""
    cut: int = 0
    """Those that are shown in part."""
    pinned: int = 0
    """How many of the messages, the first ones, are left out after all others, as a pinned item is."""

    @cached_property
    def tokens(self) -> int:
        """What it takes of the budget when it is rendered: tokens of 4 bytes, each message rounded up."""
        return sum(message.tokens for message in self.render())

    @property
    def listing(self) -> str:
        """The items as a list in a prompt."""
        return "\n".join(f"- {item.text}" for item in self.items)

    def render(self) -> tuple[Message, ...]:
        """Return the messages that a model is shown before the query."""
        return self._rendered

    @cached_property
    def _rendered(self) -> tuple[Message, ...]:
        if self.template is None:
            return self.messages
        listing = self.listing
        return Message("system", render(self.template, memories=listing, current_memories=listing)), *self.messages


@dataclass(frozen=True, slots=True)
class MemoryEvent(Values):
    """One write."""

    evicted: tuple[Message, ...]
    before: tuple[str, ...]
    """Memories before the write, one line each, oldest first."""
    after: tuple[str, ...]
    """Memories after it."""
    raw: tuple[str, ...] = ()
    """The model's replies, as they came."""
    error: str | None = None
    """Why a reply of the model was of no use, so that it changed nothing; None when all went well."""


class MemoryFault(MnemotuneError, RuntimeError):  # noqa: N818 - what happened
    """A memory has failed in a call, which ends its episode alone; the message says which, and why."""


class Memory(Protocol):
    """What remembers under a policy: it watches messages go by and gives context back.

    Every memory passes the tests of ``conformance``. An error, also one of a language model, leaves the memory as it
    was before the call. MemoryFault is the memory's own.
    """

    @property
    def policy(self) -> MemoryPolicy:
        """The policy that it runs under."""

    async def observe(self, messages: Sequence[Message]) -> list[MemoryEvent]:
        """Take in messages that were exchanged; return the writes that this set off, oldest first."""

    async def context(self, query: str, *, tokens: int | None) -> Context:
        """Return what to put before ``query``, which changes nothing that is remembered.

        Rendered, it takes at most ``tokens`` of 4 bytes; None is no limit.
        """

    async def listing(self) -> list[Item]:
        """Return all memories, oldest write first; the buffer's messages are none."""

    async def snapshot(self) -> Any:
        """Return everything that is remembered, as a value that never changes."""

    async def restore(self, state: Any) -> None:
        """Go back to what a ``snapshot``, also another memory's under an equal policy, has returned."""

    async def fork(self, *, memories: bool = True) -> Memory:
        """Return a memory in the same state that goes its own way from here; without ``memories`` the buffer alone."""

    async def adopt(self, policy: MemoryPolicy) -> None:
        """Go on under a rewritten policy; what is remembered stays."""

    async def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each memory, and each message of the buffer, of whose text ``what`` is true; return how many.

        A tool call and its results go together. Nothing of them comes back, except by restoring an earlier snapshot.
        """

    async def aclose(self) -> None:
        """Release what this memory has opened; the language model and the embedder belong to the caller."""
