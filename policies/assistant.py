"""The assistant: a language model with a memory."""

from __future__ import annotations

from .lm.base import CallRole, LanguageModel, Message, Request
from .memory import Memory, MemoryEvent


class Assistant:
    """Talks to a user, and remembers under its memory's policy."""

    def __init__(self, model: LanguageModel, memory: Memory) -> None:
        """Put a model and a memory together."""
        self.model = model
        self.memory = memory

    def fork(self, *, memories: bool = True) -> Assistant:
        """Return an assistant that remembers the same and goes its own way from here.

        Without ``memories`` it has only the messages that are not written yet.
        """
        return Assistant(self.model, self.memory.fork(memories=memories))

    async def reply(self, text: str) -> tuple[str, list[MemoryEvent]]:
        """Reply to the user's message and remember both; return the reply and the writes that this set off."""
        reply = await self.respond(text)
        return reply, await self.remember(text, reply)

    async def respond(self, text: str) -> str:
        """Reply to the user's message; what is remembered stays as it is until ``remember``."""
        return await self._ask(text, role="reply")

    async def remember(self, text: str, reply: str) -> list[MemoryEvent]:
        """Remember the user's message and the reply to it; return the writes that this set off."""
        return await self.memory.observe([Message("user", text), Message("assistant", reply)])

    async def answer(self, prompt: str, *, role: CallRole = "answer") -> str:
        """Answer a question; what is remembered stays as it is."""
        return await self._ask(prompt, role=role)

    async def _ask(self, text: str, *, role: CallRole) -> str:
        context = await self.memory.context(text)
        return (await self.model.complete(Request((*context, Message("user", text)), role=role))).text
