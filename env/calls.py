"""The calls of language models behind an episode, for people to look at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ..data.folded import Folded
from ..data.values import Values
from ..policies.lm import CallRole, Completion, LanguageModel, Message, Request
from ..policies.lm.base import Wrapper
from ..policies.lm.ledger import Usage

_calls: ContextVar[list[Call] | None] = ContextVar("calls", default=None)
"""Where calls are recorded; tasks that are started record where their maker does until they say otherwise."""


@dataclass(frozen=True, slots=True)
class Call(Values):
    """One call that was answered."""

    model: str
    role: CallRole
    messages: Sequence[Message]
    """What was sent; folded, as it is most of what an episode has."""
    tools: tuple[str, ...]
    """Names of those that the model could have called."""
    reply: Message
    usage: Usage
    began: float
    """When it was asked, in seconds since 1970 (UTC)."""
    seconds: float
    """Until the reply was here; what it waited for its turn is part of it."""

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """Leave the messages open: folded with the other calls of an episode, they take half the bytes."""
        kind, (model, role, messages, *rest) = Values.__reduce__(self)
        return kind, (model, role, tuple(messages), *rest)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values, without the messages that were sent; the reply is in OpenAI's form."""
        return {
            "model": self.model,
            "role": self.role,
            "tools": list(self.tools),
            "reply": self.reply.as_json(),
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cached": self.usage.cached,
            "began": round(self.began, 6),
            "seconds": round(self.seconds, 6),
        }


class Recorder(Wrapper):
    """A language model whose answered calls are recorded where ``recorded`` says; the model does not know of it."""

    def __init__(self, model: LanguageModel, *, clock: Callable[[], float] = time.time) -> None:
        """Record the calls of ``model``; ``clock`` is in seconds since 1970 (UTC)."""
        super().__init__(model)
        self._clock = clock

    async def complete(self, request: Request) -> Completion:
        """Ask the inner model."""
        calls = _calls.get()
        if calls is None:
            return await self.model.complete(request)
        began = self._clock()
        completion = await self.model.complete(request)
        reply = Message("assistant", completion.text, completion.tool_calls)
        sent, tools = Folded.of(request.messages), tuple(tool.name for tool in request.tools)
        seconds = self._clock() - began
        calls.append(Call(self.name, request.role, sent, tools, reply, completion.usage, began, seconds))
        return completion


@contextmanager
def recorded(into: list[Call] | None = None) -> Iterator[list[Call]]:
    """Record the calls that this block and the tasks that it starts make of recorders, in the order of the replies."""
    calls: list[Call] = [] if into is None else into
    before = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(before)
