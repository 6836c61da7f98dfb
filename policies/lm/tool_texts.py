"""Tools as a text, for a model that reads nothing but messages; servers put them there by a chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..replies import ReplyError, read_json_object
from .base import Message

_ASKED = (
    "You can call tools, one or several. To call them, reply with a JSON object and nothing else: "
    '{"calls": [{"name": "the tool", "arguments": {}}]}. The tools, each as JSON on a line of its own:'
)
"""Whether one has to be called is left to the server: where none is, it makes the reply a call."""


def tools_message(tools: Sequence[Mapping[str, Any]]) -> Message:
    """Return a message that offers these tools; each is a function in OpenAI's form."""
    return Message("system", "\n".join([_ASKED, *(json.dumps(tool, ensure_ascii=False) for tool in tools)]))


def tools_in(message: Message) -> list[dict[str, Any]]:
    """Return the tools of a ``tools_message``; none of any other message."""
    if not message.content.startswith(f"{_ASKED}\n"):
        return []
    return [json.loads(line) for line in message.content.split("\n")[1:]]


def calls_text(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return calls, each a tool's name with its arguments, as such a message asks for them."""
    called = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps({"calls": called}, ensure_ascii=False)


def calls_in(text: str) -> list[tuple[str, Any]]:
    """Return the calls that a reply makes, each a tool's name with its arguments; none where it makes none."""
    with suppress(ReplyError, KeyError, TypeError):
        return [(str(call["name"]), call["arguments"]) for call in read_json_object(text)["calls"]]
    return []
