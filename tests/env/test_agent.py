"""An agent that plans by itself sees its prompt, its last calls, and what its memory brings back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mnemotune.env.agent import NO_OBJECT, TOO_MANY, ModelAgent, no_memory
from mnemotune.env.episode import EventKind
from mnemotune.policies.lm import Completion, Message, Tool, ToolCall
from mnemotune.policies.lm.ledger import Usage

Seen = list[tuple[tuple[Message, ...], str]]


def calling(*calls: tuple[str, str], text: str = "") -> Completion:
    made = tuple(ToolCall(f"call-{number}", name, arguments) for number, (name, arguments) in enumerate(calls))
    return Completion(text, Usage(1, 1), made)


def saying(text: str) -> Completion:
    return Completion(text, Usage(1, 1))


class Recorder:
    """Thinks what it is told to think, and notes what it sees, what is done and what is observed."""

    def __init__(self, *thoughts: Completion) -> None:
        self.thoughts = list(thoughts)
        self.seen: Seen = []
        self.done: list[tuple[str, Mapping[str, Any]]] = []
        self.observed: list[tuple[EventKind, str]] = []
        self.agent = ModelAgent(self._think, self._observe, self._act, [])

    async def _think(self, newest: Sequence[Message], query: str, tools: Sequence[Tool]) -> Completion:
        self.seen.append((tuple(newest), query))
        return self.thoughts.pop(0)

    async def _observe(self, kind: EventKind, message: Message) -> None:
        self.observed.append((kind, message.content))

    async def _act(self, name: str, arguments: Mapping[str, Any]) -> Sequence[str]:
        self.done.append((name, arguments))
        return [f"{name} gave this", f"{name} gave that"]


async def test_only_the_last_calls_are_seen_and_what_was_seen_is_observed_once_the_agent_has_gone_on() -> None:
    it = Recorder(calling(("first", '{"a": 1}')), calling(("second", "")), saying("  All done. "))
    assert await it.agent.turn("Please help: hello", "hello", heard=["hello"], most=4) == "All done."
    assert it.done == [("first", {"a": 1}), ("second", {})]
    assert [[message.role for message in newest] for newest, _ in it.seen] == [
        ["user"],
        ["user", "assistant", "tool"],
        ["user", "assistant", "tool"],
    ]
    last, query = it.seen[-1]
    assert last[2].content == "second gave this\nsecond gave that"
    assert query == "hello\nsecond gave this\nsecond gave that"
    assert it.observed == [
        ("say", "hello"),
        *(("observe", f"first gave {what}") for what in ("this", "that")),
        *(("observe", f"second gave {what}") for what in ("this", "that")),
        ("act", "All done."),
    ]


async def test_several_calls_at_once_are_made_up_to_the_number_that_is_left() -> None:
    it = Recorder(calling(("one", "{}"), ("two", "{}"), ("three", "{}")), saying("so"))
    assert await it.agent.turn("p", "q", most=2) == "so"
    assert [name for name, _ in it.done] == ["one", "two"]
    newest, _ = it.seen[-1]
    assert [message.tool_call_id for message in newest[2:]] == ["call-0", "call-1", "call-2"]
    assert newest[-1].content == TOO_MANY
    assert len(it.observed) == 5


async def test_who_calls_tools_without_an_end_is_cut_short() -> None:
    it = Recorder(*(calling(("again", "{}")) for _ in range(9)))
    assert await it.agent.turn("p", "q", most=3) is None
    assert len(it.done) == 3
    assert len(it.observed) == 6


@pytest.mark.parametrize("arguments", ["[1]", "{", '"text"', "[" * 100_000])
async def test_arguments_that_are_no_object_are_answered_with_an_error(arguments: str) -> None:
    it = Recorder(calling(("one", arguments)), saying("so"))
    await it.agent.turn("p", "q", most=2)
    assert it.done == []
    assert it.seen[-1][0][-1].content == NO_OBJECT


async def test_half_characters_of_a_reply_go_no_further() -> None:
    it = Recorder(saying("so \ud83d"))
    assert await it.agent.turn("p", "q", most=2) == "so ?"


async def test_an_agent_without_memory_observes_nothing() -> None:
    await no_memory("say", Message("user", json.dumps({})))
