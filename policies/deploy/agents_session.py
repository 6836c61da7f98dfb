"""A memory as a session of the OpenAI Agents SDK: the talk so far is what memory puts before it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..lm.base import LanguageModelError, Message, ToolCall
from ..memory.budget import units_of
from ..memory.protocol import Context
from .conversation import answered, message_of, query_of
from .store import UserMemory

_log = logging.getLogger(__name__)


class MemorySession:
    """A session on one user's memory; it is a ``Session``, as ``agents.memory`` has it.

    ``get_items`` returns memories in a system message, then the newest messages. What the last ``add_items`` brought
    waits to be observed until the next one, so that ``pop_item`` can take it back. Texts and calls of functions are
    remembered; what else an item holds is not.
    """

    session_settings = None

    def __init__(self, memory: UserMemory, *, context_tokens: int | None = None) -> None:
        """Be the session of whom ``memory`` is; it takes at most ``context_tokens`` of the model's input."""
        self.session_id = memory.user
        self._memory = memory
        self._tokens = context_tokens

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return what memory puts before the talk goes on, the newest ``limit`` items of it.

        Nothing says yet what comes next: memories are looked up for what the user said last. ``recall`` knows better.
        """
        items = [*_items(await self._context(None), ())]
        return items if limit is None else items[max(0, len(items) - limit) :]

    async def recall(self, history: list[Any], new: list[Any]) -> list[Any]:
        """Return the input of a run with memories for what is new: give it as ``RunConfig.session_input_callback``."""
        following = [*_messages(new)]
        return [*_items(await self._context(query_of(following)), following), *new]

    async def add_items(self, items: list[Any]) -> None:
        """Observe what was added before, and put these behind it.

        Where the model that writes fails, both wait for the next time, and the log says so: the run goes on.
        """
        new = [message for message in _messages(items) if message.role != "system"]
        if new and new[0].role == "tool":  # the call that it is the result of waits
            new = [*self._memory.take_back(), *new]
        else:
            try:
                await self._memory.catch_up()
            except LanguageModelError as error:
                _log.error("user %s: what was said waits to be remembered: %s", self.session_id, error)
        self._queue(new)

    async def pop_item(self) -> Any | None:
        """Take back the newest item of the last ``add_items``; None where there is none left."""
        taken = [*_as_items(self._memory.take_back())]
        if not taken:
            return None
        self._queue(_messages(taken[:-1]))
        return taken[-1]

    async def clear_session(self) -> None:
        """Delete all that is remembered of the user."""
        self._memory.delete()

    def _queue(self, messages: Iterable[Message]) -> None:
        """Let messages wait, calls of functions with their results: a model takes no result without its call."""
        for unit in units_of([*messages]):
            self._memory.queue(unit)

    async def _context(self, query: str | None) -> Context:
        if query is None:
            newest = await self._memory.context("", tokens=self._tokens)
            query = query_of(newest.messages)
        return await self._memory.context(query, tokens=self._tokens)


def _items(context: Context, following: Sequence[Message]) -> Iterator[Any]:
    """Yield what is shown before what follows: calls that have no result are not."""
    messages = answered(context.messages, following)
    shown = replace(context, messages=messages) if context.items else Context(messages=messages)
    yield from _as_items(shown.render())


def _as_items(messages: Iterable[Message]) -> Iterator[Any]:
    for message in messages:
        if message.role == "tool":
            yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}
            continue
        if message.content:
            yield {"role": message.role, "content": message.content}
        for call in message.tool_calls:
            yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _messages(items: Iterable[Any]) -> Iterator[Message]:
    """Yield the messages of items; calls that come one after another are one message, as the model made them."""
    calls: list[Message] = []
    for message in _each(items):
        if calls and not (message.tool_calls and not message.content):
            yield _together(calls)
            calls = []
        if message.tool_calls:
            calls.append(message)
        else:
            yield message
    if calls:
        yield _together(calls)


def _together(calls: Sequence[Message]) -> Message:
    return Message("assistant", calls[0].content, tuple(call for message in calls for call in message.tool_calls))


def _each(items: Iterable[Any]) -> Iterator[Message]:
    for item in items:
        given = item if isinstance(item, dict) else item.model_dump()
        match given:
            case {"type": "function_call", "call_id": str(call), "name": str(name), "arguments": str(arguments)}:
                yield Message("assistant", "", (ToolCall(call, name, arguments),))
            case {"type": "function_call_output", "call_id": str(call), "output": output}:
                yield Message("tool", _text(output), tool_call_id=call)
            case {"role": _} if (message := message_of(given)) is not None and message.text:
                yield message


def _text(output: Any) -> str:
    parts: Sequence[Any] = output if isinstance(output, list) else [output]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
