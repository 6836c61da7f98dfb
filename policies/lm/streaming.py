"""Replies that come piece by piece: server-sent events, and the message that they add up to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from ...data.thoughts import Aloud, text_of, without_thoughts
from .base import Message, ToolCall

MOST_EVENT_BYTES = 2**22
"""Of one event; a longer one is no text of a model."""
DONE = "[DONE]"
BROKEN_OFF = ("error", "network_error")
"""Reasons to end that gateways give where the model behind them has failed; a reply with one is none."""


class BrokenOff(ValueError):  # noqa: N818 - what it means, not what it is
    """A reply that ends in a failure of the model behind the server."""

    def __init__(self, problem: str) -> None:
        """``problem``: what the server says of it."""
        super().__init__("the reply broke off")
        self.problem = problem


class Events:
    """Takes server-sent events apart, however the bytes come."""

    def __init__(self) -> None:
        """Start at the beginning of a stream."""
        self._rest = b""
        self._data: list[str] = []

    def take(self, piece: bytes) -> list[str]:
        """Return the data of the events that are whole by now. Raises ValueError for an event without end."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > MOST_EVENT_BYTES:
            raise ValueError(f"an event of the stream is larger than {MOST_EVENT_BYTES:,} bytes")
        whole: list[str] = []
        for line in (line.rstrip(b"\r").decode(errors="replace") for line in lines):
            if line.startswith("data:"):
                self._data.append(line.removeprefix("data:").removeprefix(" "))
            elif not line and self._data:
                whole.append("\n".join(self._data))
                self._data = []
        return whole

    def end(self) -> list[str]:
        """Return the data of an event at the end that no empty line follows."""
        return self.take(b"\n\n")


async def events_of(content: AsyncIterable[bytes]) -> AsyncIterator[Any]:
    """Yield the JSON of each event until the stream says that it is done.

    Raises ValueError where an event is no JSON, tells of an error, or the stream ends before the reply does.
    """
    events, finished = Events(), False
    async for piece in content:
        for data in events.take(piece):
            if data == DONE:
                return
            event = _read(data)
            finished |= any(isinstance(said, dict) and said.get("finish_reason") for said in _listed(event, "choices"))
            yield event
    if not finished and DONE not in events.end():
        raise ValueError("the stream ended before the reply did")


def problem_of(choice: Any) -> str:
    """Return what a choice says of a failure in the middle of the reply; empty where there was none."""
    if not isinstance(choice, dict):
        return ""
    said = choice.get("error")
    if said:
        return str(said.get("message", said)) if isinstance(said, dict) else str(said)
    return f"finish_reason {choice['finish_reason']!r}" if choice.get("finish_reason") in BROKEN_OFF else ""


def _read(data: str) -> Any:
    event = json.loads(data)
    for choice in _listed(event, "choices"):
        if problem := problem_of(choice):
            raise ValueError(problem)
    if isinstance(event, dict) and event.get("error"):
        said = event["error"]
        raise ValueError(str(said.get("message", said)) if isinstance(said, dict) else str(said))
    return event


class Said:
    """What the first choice of a streamed reply has said so far."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._texts: list[str] = []
        self._aloud = Aloud()
        self._calls: dict[int, dict[str, str]] = {}
        self.finished = False
        """Whether the choice says why it ended."""

    def take(self, event: Any) -> str:
        """Take in an event; return what it adds to what is said, the thoughts at its start left out."""
        text = ""
        for choice in _listed(event, "choices"):
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                continue
            self.finished |= choice.get("finish_reason") not in (None, *BROKEN_OFF)
            delta = choice.get("delta")
            if not isinstance(delta, dict):
                continue
            text += text_of(delta.get("content"))
            for call in _listed(delta, "tool_calls"):
                self._take_call(call)
        self._texts.append(text)
        return self._aloud.take(text)

    def rest(self) -> str:
        """Return what is said besides, as the reply has ended: its few characters could have begun thoughts."""
        return self._aloud.end()

    def _take_call(self, call: Any) -> None:
        match call:
            case {"function": dict(function)}:
                place = call.get("index")
                if not isinstance(place, int):  # some servers number no calls: each that begins has an id of its own
                    ids = {"", *(known["id"] for known in self._calls.values())}
                    begins = not self._calls or _text(call, "id") not in ids
                    place = max(self._calls, default=-1) + begins
                known = self._calls.setdefault(place, {"id": "", "name": "", "arguments": ""})
                known["id"] = _text(call, "id") or known["id"]
                known["name"] = _text(function, "name") or known["name"]
                known["arguments"] += _text(function, "arguments")

    @property
    def message(self) -> Message:
        """All of it as a message, the thoughts at its start left out."""
        calls = (self._calls[place] for place in sorted(self._calls))
        called = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in calls)
        return Message("assistant", without_thoughts("".join(self._texts)), called)


def _listed(value: Any, name: str) -> list[Any]:
    listed = value.get(name) if isinstance(value, dict) else None
    return listed if isinstance(listed, list) else []


def _text(value: dict[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""
