"""Memories in the form that a prompt shows, and by tools: the embedded model notes what a talk tells."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.tasks import read_and_reply
from mnemotune.policies.lm.tool_texts import calls_in, tools_message

READING = next(iter(READERS.values()))
TOLD, ASKED = "I moved to Lisbon in May and I work as a nurse at night.", "Which bakery opens early there?"
LINES = f"user: {TOLD} {ASKED}\nassistant: The one at the corner bakes from four on.\n"
HEADED = f"=== Human Message ===\n\n{TOLD} {ASKED}\n\n=== Ai Message ===\n\nThe one at the corner bakes from four on."
SHOWN = """You extract memories from a talk. Work through these rules:
- Keep what the user says of the user.
- Leave out small talk.

Write down each statement in full, with every detail. Reply with JSON alone:
{"memory": [{"id": "0", "text": "A first memory", "attributed_to": "user", "linked": ["1"]}]}
"""
TOOL: dict[str, Any] = {
    "name": "Memory",
    "description": "Record one memory.",
    "parameters": {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]},
}


def said(*messages: Message) -> str:
    return read_and_reply(messages, READING)


def extracted(prompt: str) -> list[dict[str, str]]:
    memories: list[dict[str, str]] = json.loads(said(Message("system", SHOWN), Message("user", prompt)))["memory"]
    return memories


@pytest.mark.parametrize("talk", [LINES, HEADED])
def test_what_a_talk_tells_comes_in_the_form_that_the_prompt_shows(talk: str) -> None:
    memories = extracted(f"## Summary\n\n## New messages\n{talk}\n\n## Today\n2026-03-01")
    assert memories[0] == {"id": "0", "text": TOLD, "attributed_to": "user"}
    assert [memory["id"] for memory in memories] == [str(place) for place in range(len(memories))]


def test_only_the_last_part_in_which_people_speak_is_noted() -> None:
    memories = extracted(f"## Before\nuser: I keep two parrots.\n\n## New messages\n{LINES}")
    assert not any("parrots" in memory["text"] for memory in memories)


def test_what_is_known_is_not_noted_again() -> None:
    known = json.dumps([{"id": "7", "text": TOLD}])
    assert not any(memory["text"] == TOLD for memory in extracted(f"## Known\n{known}\n\n## New messages\n{LINES}"))


def test_who_said_it_is_told_where_the_form_asks_for_it() -> None:
    talk = "user: Where should I swim?\nassistant: Your plan is to swim at the old harbour on Sundays.\n"
    prompt = f"Note what the assistant says too.\n\n## New messages\n{talk}"
    assert {memory["attributed_to"] for memory in extracted(prompt)} <= {"assistant"}


def test_a_tool_that_takes_a_text_is_called_for_each_thing_that_the_talk_tells() -> None:
    prompt = Message("user", f"Write down each statement in full, with every detail.\n\n<talk>\n{HEADED}\n</talk>")
    calls = calls_in(said(prompt, tools_message([{"name": "search"}, TOOL])))
    assert ("Memory", {"content": TOLD}) in calls
    assert {name for name, _ in calls} == {"Memory"}


@pytest.mark.parametrize("tools", [[{"name": "search"}], [TOOL]])
def test_where_no_tool_fits_or_nobody_speaks_the_reply_is_as_without_tools(tools: list[dict[str, Any]]) -> None:
    talk = [Message("user", f"{TOLD} {ASKED}")]
    assert said(*talk, tools_message(tools)) == said(*talk)


def test_a_talk_without_a_form_is_answered_as_ever() -> None:
    assert not said(Message("user", f"Here is a talk.\n{LINES}")).startswith("{")


FEW_SHOTS = """You organize what users tell. Keep every detail of the user.

User: Hi.
Output: {"facts" : []}

User: Hi, my name is John. I am a software engineer.
Output: {"facts" : ["Name is John", "Is a Software engineer"]}

Return the facts in a JSON format as shown above.
"""
MERGE = """Old Memory:
        [
            {"id" : "0", "text" : "User is a software engineer"}
        ]
Retrieved facts: ["Name is John"]

    Below is the current content of my memory:

    ```
    %r
    ```

    The new retrieved facts are mentioned in the triple backticks.

    ```
    %r
    ```

    {
        "memory" : [
            {
                "id" : "<ID of the memory>",
                "event" : "<Operation to be performed>"    # Must be "ADD", "UPDATE", "DELETE", or "NONE"
            }
        ]
    }
"""


def test_facts_are_texts_where_the_examples_of_a_reply_have_texts() -> None:
    reply = json.loads(said(Message("system", FEW_SHOTS), Message("user", f"Input:\n{LINES}")))
    assert reply["facts"][0] == TOLD


@pytest.mark.parametrize("odd", ['{"facts": ["A"], "topics": ["B"]}', '{"facts": ["A"]]}'])
def test_an_example_that_is_no_single_list_of_texts_is_passed_over(odd: str) -> None:
    reply = json.loads(said(Message("system", f"{FEW_SHOTS}\nOutput: {odd}\n"), Message("user", f"Input:\n{LINES}")))
    assert reply["facts"][0] == TOLD


def test_facts_are_merged_with_memories_that_a_prompt_shows_as_pythons_lists() -> None:
    known = [{"id": "0", "text": "I work as a nurse in Porto."}]
    prompt = MERGE % (known, ["I work as a nurse in Lisbon.", "I keep two parrots."])
    events = json.loads(said(Message("user", prompt)))["memory"]
    assert events == [
        {"event": "UPDATE", "id": "0", "text": "I work as a nurse in Lisbon."},
        {"event": "ADD", "text": "I keep two parrots."},
    ]


def test_a_fence_that_holds_no_list_is_passed_over() -> None:
    prompt = "```\n{[]: 1}\n```\n" + MERGE % ([], ["I keep two parrots."])
    assert json.loads(said(Message("user", prompt)))["memory"] == [{"event": "ADD", "text": "I keep two parrots."}]


def test_where_nothing_is_known_every_fact_is_new() -> None:
    prompt = MERGE.replace("    ```\n    %r\n    ```\n", "", 1) % (["I keep two parrots."],)
    assert json.loads(said(Message("user", prompt)))["memory"] == [{"event": "ADD", "text": "I keep two parrots."}]
