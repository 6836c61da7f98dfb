"""An agent that plans by itself: a model calls tools, and what it no longer sees comes out of its memory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ..data.chunks import chunks
from ..data.task import Task
from ..policies.assistant import Assistant
from ..policies.lm import CallRole, Completion, Message, Request, Tool, ToolCall
from ..policies.lm.base import Wrapper
from ..policies.text import whole
from .episode import Episode, EventKind, RecordError

Agent = Literal["planned", "model"]
"""Who acts: a plan that is given, whose arguments memory answers; or a language model that plans and calls tools."""
AGENTS: tuple[Agent, ...] = get_args(Agent)
MODEL: Agent = "model"

Think = Callable[[Sequence[Message], str, Sequence[Tool]], Awaitable[Completion]]
"""Goes on from the newest messages with tools at hand; the text is what memory looks for."""
Observe = Callable[[EventKind, Message], Awaitable[None]]
"""Lets memory take in a message."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a tool shows the agent, where memory observes something else of it."""

    shown: str
    heard: Sequence[tuple[EventKind, Message]]


Act = Callable[[str, Mapping[str, Any]], Awaitable[Sequence[str] | Sight]]
"""Calls a tool by its name; returns what it gives back, each text of which memory observes by itself, or a sight."""

NO_OBJECT = "Error: the arguments are no JSON object"
TOO_MANY = "Error: not called, for there have been too many calls: reply now"
MOST_LOOKED_FOR = 4_000
"""Characters of a result that are part of what memory looks for."""
MOST_PIECES = 4
"""Messages that memory observes of one text that somebody says."""


@dataclass(frozen=True, slots=True)
class ModelAgent:
    """Sees what it is asked, its last calls with their results, and what ``think`` puts before them.

    What it sees so is observed once it has gone on.
    """

    think: Think
    observe: Observe
    act: Act
    tools: Sequence[Tool]

    async def turn(
        self, prompt: str, about: str, *, heard: Sequence[str] = (), last: Sequence[Message] = (), most: int
    ) -> str | None:
        """Return the reply to a prompt; memory looks for what it is ``about``, and observes what is ``heard`` in it.

        ``last`` has the call that was made before, with its result. None where the agent has made the ``most`` calls
        that it may make, and not replied.
        """
        asked, newest = Message("user", prompt), list(last)
        pending: list[tuple[EventKind, Message]] = [("say", Message("user", text)) for text in heard[:MOST_PIECES]]
        while True:
            tools = [message.content for message in newest if message.role == "tool"]
            query = "\n".join([about, *(text[:MOST_LOOKED_FOR] for text in tools)])
            completion = await self.think((asked, *newest), query, self.tools)
            for kind, message in pending:
                await self.observe(kind, message)
            if not completion.tool_calls:
                reply = whole(completion.text).strip()
                for text in chunks(reply)[:MOST_PIECES]:
                    await self.observe("act", Message("assistant", text))
                return reply
            if most <= 0:
                return None
            newest, pending = await self._called(completion, most)
            most -= len(completion.tool_calls)

    async def _called(self, completion: Completion, most: int) -> tuple[list[Message], list[tuple[EventKind, Message]]]:
        """Make the calls, ``most`` of them; return them with their results, and what memory observes of these."""
        newest = [Message("assistant", whole(completion.text).strip(), completion.tool_calls)]
        observed = list[tuple[EventKind, Message]]()
        for number, call in enumerate(completion.tool_calls):
            sight = await self._sight(call) if number < most else Sight(TOO_MANY, [])
            observed += sight.heard
            newest.append(Message("tool", sight.shown, tool_call_id=call.id))
        return newest, observed

    async def _sight(self, call: ToolCall) -> Sight:
        arguments = arguments_of(call)
        results = [NO_OBJECT] if arguments is None else await self.act(call.name, arguments)
        if isinstance(results, Sight):
            return results
        return Sight("\n".join(results), [("observe", Message("user", text)) for text in results])


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """Return the arguments of a call; None where they are no JSON object."""
    try:
        arguments = json.loads(call.arguments or "{}")
        return _whole(arguments) if isinstance(arguments, dict) else None
    except (ValueError, RecursionError):
        return None


def _whole(value: Any) -> Any:
    """Return JSON values without half characters."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return {_whole(key): _whole(part) for key, part in value.items()} if isinstance(value, dict) else value


def tool_of(schema: Mapping[str, Any]) -> Tool:
    """Return a tool that is given in OpenAI's form."""
    function = schema["function"]
    return Tool(function["name"], function.get("description", ""), json.dumps(function["parameters"]))


async def thought(
    assistant: Assistant, newest: Sequence[Message], query: str, tools: Sequence[Tool], *, role: CallRole
) -> Completion:
    """Go on as an assistant does with what its memory brings back."""
    completion, _ = await assistant.complete(newest, query, role=role, tools=tools)
    return completion


class AsBound(Wrapper):
    """A language model whose calls are billed as those of a floor or a ceiling, with the room that they have anyway."""

    async def complete(self, request: Request) -> Completion:
        """Ask the inner model."""
        return await self.model.complete(replace(request, role="upper_bound"))


def refuse_replay(replay: Episode | None, *, task: Task) -> None:
    """Raise RecordError where there is a recorded episode: what such an agent does depends on what memory gives it."""
    if replay is not None:
        raise RecordError(f"{task.id}: an agent that plans by itself acts on what memory gives it: play it anew")


async def no_memory(kind: EventKind, message: Message) -> None:
    """Let nobody take in a message."""
