"""Messages as clients send them: which of them are new, and what memory knows besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import Any

from ...data.thoughts import without_thoughts
from ..lm.base import Message, ToolCall
from ..memory.budget import units_of, within
from ..memory.protocol import Context
from ..policy import MemoryPolicy

ROLES: dict[str, Any] = {role: role for role in ("system", "user", "assistant", "tool")} | {"developer": "system"}


def message_of(given: Any) -> Message | None:
    """Return a message of OpenAI's form, the texts of its parts alone; None where it has none that can be read.

    Thoughts at the start of what an assistant says are left out.
    """
    role = ROLES.get(str(given.get("role"))) if isinstance(given, dict) else None
    if role is None:
        return None
    called = given.get("tool_calls")
    listed = called if isinstance(called, list) else []
    calls = tuple(call for each in listed if (call := _call_of(each)) is not None)
    content = given.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "\n".join(text for text in parts if isinstance(text, str))
    text = content if isinstance(content, str) else ""
    text = without_thoughts(text) if role == "assistant" else text
    call = given.get("tool_call_id")
    try:
        return Message(role, text, calls, call if role == "tool" and isinstance(call, str) else None)
    except ValueError:
        return None


def _call_of(given: Any) -> ToolCall | None:
    match given:
        case {"function": {"name": str(name), "arguments": str(arguments)}}:
            return ToolCall(str(given.get("id") or ""), name, arguments)
    return None


def newest_of(messages: Sequence[Message]) -> list[Message]:
    """Return what was said since the assistant spoke last, by users and tools: the client may send all or only that."""
    since = dropwhile(lambda message: message.role == "system", reversed(messages))
    newest: list[Message] = []
    for message in since:
        if message.role == "assistant":
            break
        if message.role != "system":
            newest.insert(0, message)
    return newest


def query_of(messages: Sequence[Message]) -> str:
    """Return what the user said last."""
    return next((message.content for message in reversed(messages) if message.role == "user"), "")


def answered(messages: Sequence[Message], following: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages without calls of tools that lack a result, and without results that lack their call.

    Servers refuse both. The results of the last calls may be what follows.
    """
    units = units_of(messages)
    kept: list[Message] = []
    for place, unit in enumerate(units):
        called = {call.id for call in unit[0].tool_calls}
        after = takewhile(lambda message: message.role == "tool", following) if place == len(units) - 1 else ()
        given = {message.tool_call_id for message in (*unit[1:], *after)}
        if called <= given and unit[0].role != "tool":
            kept += [unit[0], *(message for message in unit[1:] if message.tool_call_id in called)]
    return tuple(kept)


def before(known: Sequence[Message], given: Sequence[Any]) -> list[Any]:
    """Return what a client sends with what memory knows put before its talk, behind its own system message.

    Some models take one system message, at the beginning: what memory says there goes to the end of the client's.
    """
    leading = [*takewhile(lambda each: isinstance(each, dict) and ROLES.get(str(each.get("role"))) == "system", given)]
    talk = given[len(leading) :]
    if leading and known and known[0].role == "system":
        *others, last = leading
        leading = [*others, _longer(last, known[0].content)]
        known = known[1:]
    return [*leading, *(message.as_json() for message in known), *talk]


def _longer(given: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a client's message with a text at its end."""
    content = given.get("content")
    if isinstance(content, list):
        return {**given, "content": [*content, {"type": "text", "text": text}]}
    return {**given, "content": f"{content}\n\n{text}" if content else text}


def besides(context: Context, shown: Sequence[Message], *, tokens: int | None, policy: MemoryPolicy) -> Context:
    """Return what memory knows besides messages that are shown anyway, as far as it fits into ``tokens``."""
    newest = {id(message) for message in newest_of(shown)}  # a text as short as "yes" may have been said before
    there = {(message.role, message.text) for message in shown if id(message) not in newest}
    talk = [*dropwhile(lambda message: message.role == "system", shown)]

    def new(messages: Sequence[Message]) -> tuple[Message, ...]:
        units = (unit for unit in units_of(messages) if any((m.role, m.text) not in there for m in unit))
        return tuple(message for unit in units for message in unit)

    start = answered(new(context.messages[: context.pinned]), ())
    rest = answered(new(context.messages[context.pinned :]), talk)
    left = replace(context, messages=(*start, *rest), pinned=len(start))
    if not left.items and left.template is not None:
        left = replace(left, template=None)
    return within(left, tokens, buffer_share=policy.buffer_share / 100)
