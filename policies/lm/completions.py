"""What a reply of an OpenAI-compatible endpoint says, and the tokens that it took."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from ...data.thoughts import text_of, without_thoughts
from .base import CHARACTERS_PER_TOKEN, Request, ToolCall
from .streaming import BrokenOff, problem_of

MOST_TOOLS = 128
"""Tool calls of one reply that are read."""
CUT = ("length", "model_length")
"""Reasons to end that say that a reply is not whole: at its limit of tokens, and at the context's end (Mistral)."""


def said_in(reply: object, *, tools: bool) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text and the tool calls of a reply's first choice; without ``tools`` calls are not read.

    Raises BrokenOff, or another ValueError when the reply holds no choice that can be read.
    """
    match reply:
        case {"choices": [dict(choice), *_]} if problem := problem_of(choice):
            raise BrokenOff(problem)
        case {"choices": [{"message": dict(message)}, *_]} if _is_readable(message.get("content")):
            calls = message.get("tool_calls") if tools else None
            if not isinstance(calls, list | None):
                raise ValueError("the reply's tool calls are no list")
            text = without_thoughts(text_of(message.get("content")))
            return whole(text), tuple(map(_tool_call, range(MOST_TOOLS), calls or ()))
    raise ValueError("the reply holds no choice with a text")


def tokens_of(reply: object, request: Request, text: str, calls: Iterable[ToolCall]) -> tuple[int, int]:
    """Return the tokens of what was asked, and those of what was said, by the server's count where it gives one."""
    asked = [*(message.text for message in request.messages), *(str(tool.as_json()) for tool in request.tools)]
    said = [text, *(part for call in calls for part in (call.name, call.arguments))]
    output = max(tokens_in(reply, "completion_tokens", said), _besides_input(reply))
    return tokens_in(reply, "prompt_tokens", asked), output


def tokens_in(reply: object, counter: str, texts: Iterable[str]) -> int:
    """Return the server's count, or an estimate from the texts where it gives none (or 0, as some do)."""
    match reply:
        case {"usage": dict(usage)} if isinstance(count := usage.get(counter), int) and count > 0:
            return count
    return math.ceil(sum(map(len, texts)) / CHARACTERS_PER_TOKEN)


def is_cut(reply: object) -> bool:
    """Tell whether a reply was cut at its limit of tokens or at the context's end."""
    match reply:
        case {"choices": [{"finish_reason": str(reason)}, *_]}:
            return reason in CUT
    return False


def whole(text: str) -> str:
    """Return a text without halves of surrogate pairs, which cannot be sent or stored."""
    return text.encode(errors="replace").decode()


def _is_readable(content: object) -> bool:
    return isinstance(content, str | None) or (isinstance(content, list) and all(isinstance(p, dict) for p in content))


def _tool_call(place: int, given: object) -> ToolCall:
    """Return a call as a server gives it; some give no id, or arguments that are no text."""
    match given:
        case {"function": {"name": str(name), "arguments": str() | dict() as arguments}, **rest}:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            return ToolCall(whole(str(rest.get("id") or f"call_{place}")), whole(name), whole(text))
    raise ValueError("the reply holds a tool call without a name and arguments")


def _besides_input(reply: object) -> int:
    """Return the tokens that are no input: some servers leave thinking out of ``completion_tokens``, and bill it."""
    match reply:
        case {"usage": {"total_tokens": int(total), "prompt_tokens": int(given)}}:
            return total - given
    return 0
