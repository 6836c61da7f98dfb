"""The assistant: a language model with a memory."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

from ..data.errors import MnemotuneError
from .forms import ReplyForm
from .lm.base import Completion, LanguageModel, LanguageModelError, Message, Request, Tool
from .lm.budget import BudgetExhausted
from .lm.client import Client, as_model
from .lm.ledger import CallRole
from .memory.budget import within
from .memory.protocol import Context, Memory, MemoryEvent


@dataclass(frozen=True, slots=True)
class ContextUse:
    """What memory has put before a model, in tokens of its budget."""

    calls: int = 0
    tokens: int = 0
    """Sum over the calls."""
    most_tokens: int = 0
    """The largest context of a call."""
    left_out: int = 0
    """Items and messages for which there was no room, summed over the calls."""
    cut: int = 0
    """Those that were shown in part."""

    def __add__(self, other: ContextUse) -> ContextUse:
        """Return the use of both."""
        most = max(self.most_tokens, other.most_tokens)
        sums = (getattr(self, name) + getattr(other, name) for name in ("calls", "tokens", "left_out", "cut"))
        calls, tokens, left_out, cut = sums
        return ContextUse(calls, tokens, most, left_out, cut)

    @property
    def mean_tokens(self) -> float:
        """Tokens a call; NaN without any call."""
        return self.tokens / self.calls if self.calls else math.nan


Uses = dict[CallRole, ContextUse]
"""By what the calls were for."""


def added(uses: Iterable[Mapping[CallRole, ContextUse]]) -> Uses:
    """Return the sum of several uses, in an order that does not depend on which call came first."""
    total: Uses = {}
    for use in uses:
        for role, more in use.items():
            total[role] = total.get(role, ContextUse()) + more
    return dict(sorted(total.items()))


class NotRemembered(LanguageModelError):  # noqa: N818 - what has happened
    """Say why a reply, which was paid for, and the message before it are not remembered."""

    def __init__(self, why: str, reply: str) -> None:
        """Keep the reply."""
        super().__init__(why)
        self.reply = reply


class Assistant:
    """Talks to a user, and remembers under its memory's policy."""

    def __init__(
        self,
        model: LanguageModel | Client,
        memory: Memory,
        *,
        context_tokens: int | None = None,
        model_name: str | None = None,
        questions: asyncio.Semaphore | None = None,
    ) -> None:
        """Put a model and a memory together; an ``openai.AsyncOpenAI`` needs a ``model_name``.

        ``context_tokens`` is the most that memory puts before the model in one call, in tokens of 4 bytes.
        At most so many ``questions`` wait for the model at once, each with its context; a reply never waits for them.
        """
        self.model = as_model(model, model_name)
        self.memory = memory
        self.context_tokens = context_tokens
        self._questions = questions
        self.uses: Uses = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the memory, and the model's connections in this event loop; the next call opens others.

        An official client stays open: it belongs to the caller.
        """
        await self.memory.aclose()
        await self.model.aclose()

    async def fork(self, *, memories: bool = True) -> Assistant:
        """Return an assistant that remembers the same and goes its own way from here.

        Without ``memories`` it has only the messages that are not written yet. What both use is counted together.
        """
        other = copy(self)
        other.memory = await self.memory.fork(memories=memories)
        return other

    async def context(self, text: str) -> Context:
        """Return what memory puts before the model for a message or a question; what is too much is cut."""
        context = await self.memory.context(text, tokens=self.context_tokens)
        return within(context, self.context_tokens, buffer_share=self.memory.policy.buffer_share / 100)

    async def reply(self, text: str) -> tuple[str, list[MemoryEvent]]:
        """Reply to the user's message and remember both; return the reply and the writes that this set off.

        Raises NotRemembered, which has the reply, where there is one and memory cannot be written.
        """
        reply = await self.respond(text)
        try:
            return reply, await self.remember(text, reply)
        except BudgetExhausted:
            raise
        except MnemotuneError as error:
            raise NotRemembered(f"there is a reply, and memory cannot be written: {error}", reply) from error

    async def stream(self, text: str) -> AsyncGenerator[str]:
        """Yield the reply to the user's message as it comes, and then remember both.

        Nothing is remembered when the reply breaks off, or is not taken to its end.
        """
        pieces: list[str] = []
        async with self._asking([Message("user", text)], text, role="reply") as (request, _):
            async for piece in self.model.stream(request):
                pieces.append(piece)
                yield piece
        await self.remember(text, "".join(pieces))

    async def respond(self, text: str) -> str:
        """Reply to the user's message; what is remembered stays as it is until ``remember``."""
        return await self.answer(text, role="reply")

    async def remember(self, text: str, reply: str) -> list[MemoryEvent]:
        """Remember the user's message and the reply to it; return the writes that this set off."""
        return await self.memory.observe([Message("user", text), Message("assistant", reply)])

    async def answer(self, prompt: str, *, role: CallRole = "answer", form: ReplyForm | None = None) -> str:
        """Answer a question, in a form where there is one; what is remembered stays as it is."""
        return (await self.answer_and_context(prompt, role=role, form=form))[0]

    async def answer_and_context(
        self, prompt: str, *, role: CallRole = "answer", form: ReplyForm | None = None
    ) -> tuple[str, Context]:
        """Answer a question as ``answer`` does; return also what memory put before the model."""
        completion, context = await self.complete([Message("user", prompt)], prompt, role=role, form=form)
        return completion.text, context

    async def complete(
        self,
        newest: Sequence[Message],
        query: str,
        *,
        role: CallRole,
        form: ReplyForm | None = None,
        tools: Sequence[Tool] = (),
    ) -> tuple[Completion, Context]:
        """Go on from messages that memory has not observed yet; ``query`` is what memory looks for.

        Return also what memory put before the model. What is remembered stays as it is.
        """
        async with self._asking(newest, query, role=role, form=form, tools=tuple(tools)) as (request, context):
            return await self.model.complete(request), context

    @asynccontextmanager
    async def _asking(
        self, newest: Sequence[Message], query: str, *, role: CallRole, **settings: Any
    ) -> AsyncIterator[tuple[Request, Context]]:
        """Give a request with what memory puts before it, in its turn."""
        async with nullcontext() if self._questions is None or role == "reply" else self._questions:
            context = await self.context(query)
            use = ContextUse(1, context.tokens, context.tokens, context.left_out, context.cut)
            self.uses[role] = self.uses.get(role, ContextUse()) + use
            yield Request((*context.render(), *newest), role=role, **settings), context
