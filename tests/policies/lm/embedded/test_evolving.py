"""What describes notes and links them, also in the forms of A-Mem's own prompts."""

from __future__ import annotations

import json
from typing import Any

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.linking import MOST_LINKS
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.tasks import read_and_reply

ANALYSIS = """Generate a structured analysis of the following content by:
            1. Identifying the most salient keywords

            Format the response as a JSON object:
            {
                "keywords": [
                    // several specific, distinct keywords
                ],
                "context":
                    // one sentence
                ,
                "tags": [
                    // several broad categories
                ]
            }

            Content for analysis:
            """
EVOLUTION = """
                                Make decisions about its evolution.

                                The new memory context:
                                The talk is about Lisbon.
                                content: {content}
                                keywords: ['Lisbon']

                                The nearest neighbors memories (each line starts with memory_id):
                                {neighbours}

                                Return your decision in JSON format with the following structure:
                                {{
                                    "should_evolve": True or False,
                                    "suggested_connections": ["memory_id_1", "memory_id_2", ...],
                                }}
"""
NEIGHBOUR = (
    "memory_id:{}\ttalk start time:1\tmemory content: {}\tmemory context: c\tmemory keywords: []\tmemory tags: {}"
)


def reply(prompt: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(read_and_reply([Message("user", prompt)], next(iter(READERS.values()))))
    return values


def evolved(content: str, *neighbours: tuple[str, str, list[str]]) -> dict[str, Any]:
    return reply(EVOLUTION.format(content=content, neighbours="\n".join(NEIGHBOUR.format(*n) for n in neighbours)))


def test_a_note_is_described_by_its_words() -> None:
    described = reply(ANALYSIS + "user: I moved to Lisbon and work as a nurse.")
    assert described["keywords"] == ["moved", "Lisbon", "work", "nurse"]
    assert described["tags"] == ["Lisbon"]
    assert "Lisbon" in described["context"]


def test_a_note_is_linked_to_those_that_share_words_and_takes_their_tags() -> None:
    near = ("n1", "user: I moved to Lisbon in May.", ["travel"])
    told = evolved("user: I like the trams in Lisbon.", near, ("n2", "user: I bake bread.", ["food"]))
    assert told["should_evolve"] is True
    assert told["suggested_connections"] == ["n1"]
    assert "travel" in told["tags_to_update"]
    assert "food" not in told["tags_to_update"]
    assert told["new_tags_neighborhood"] == [["travel"], ["food"]]
    assert told["new_context_neighborhood"] == ["c", "c"]


def test_links_have_an_end_and_a_note_of_its_own_has_none() -> None:
    alike = [(f"n{i}", "user: I like the trams in Lisbon.", []) for i in range(9)]
    assert len(evolved("user: I like the trams in Lisbon.", *alike)["suggested_connections"]) == MOST_LINKS
    assert evolved("user: I bake bread.", *alike)["should_evolve"] is False


def test_each_message_of_a_talk_is_described_in_the_form_that_is_shown() -> None:
    talk = [{"number": 1, "role": "user", "content": "I have a boat in Lisbon."}, {"role": "user", "content": "Oh."}]
    prompt = f"""Describe each message.
{{"entries": [{{"keywords": ["..."], "message": "1", "tags": ["..."], "mood": "..."}}]}}

Conversation:
{json.dumps(talk)}"""
    first, second = reply(prompt)["entries"]
    assert first == {"keywords": ["boat", "Lisbon"], "message": "1", "tags": ["Lisbon"]}
    assert [*second] == ["keywords", "message", "tags"]
    assert second["message"] == "2"
