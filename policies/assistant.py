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

    def fork(self) -> Assistant:
        """Return an assistant that remembers the same and goes its own way from here."""
        return Assistant(self.model, self.memory.fork())

    async def reply(self, text: str) -> tuple[str, list[MemoryEvent]]:
        """Reply to the user's message and remember both; return the reply and the writes that this set off."""
        message = Message("user", text)
        context = await self.memory.context(text)
        completion = await self.model.complete(Request((*context, message), role="reply"))
        events = await self.memory.observe([message, Message("assistant", completion.text)])
        return completion.text, events

    async def answer(self, prompt: str, *, role: CallRole = "answer") -> str:
        """Answer a question; what is remembered stays as it is."""
        context = await self.memory.context(prompt)
        completion = await self.model.complete(Request((*context, Message("user", prompt)), role=role))
        return completion.text
