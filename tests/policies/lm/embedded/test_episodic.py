"""The embedded model tells episodes, merges them, and says what a talk tells beyond what was to be expected."""

from __future__ import annotations

import json
from typing import Any

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.tasks import read_and_reply

TALK = [
    "I moved to Lisbon in May and work as a nurse. Which bakery opens early there?",
    "The one at the corner opens at six.",
]
EPISODE = """Make an episode of this talk.

Conversation content:
{talk}

Boundary detection reason:
conversation

Reply with these fields:
{{
    "title": "A short title",
    "content": "A detailed narrative with all important information",
    "timestamp": "YYYY-MM-DDTHH:MM:SS"
}}
"""
SEGMENTS = """Divide the messages into episodes.

## Input Messages
{talk}

## Your Task
Group them.

## Output Format
{{"episodes": [{{"indices": [1, 2], "topic": "a topic"}}]}}
"""
PREDICTION = """Say what happened.

## Input Information

**Episode Title/Summary**: moved, lisbon, nurse

**Relevant Knowledge Statements** (what you know):
- I live in Lisbon.
- I have a dog.

## Your Task
Tell it.
"""
GAP = """Say what the prediction lacks.

## Original Conversation:
{talk}

## Predicted Summary:
{foretold}

## Your Task:
List it.

## Output Format (JSON):
{{"statements": ["First statement", "Second statement"]}}
"""
TOLD = """Say what these episodes tell.

Episodes to analyze:
Episode 1:
Title: lisbon, nurse
Content: I moved to Lisbon in May and work as a nurse. I have a dog called Rex.

## Output Format
{"statements": ["First fact", "Second fact"]}
"""
DECISION = """Decide whether to merge.

## New Episode
Time Range: 2024-03-01 10:00:00 (2 messages)
Content: I moved to Lisbon in May and work as a nurse.

## Candidate Episodes to Merge With
1. Candidate ID: other-talk
   Time: 2024-03-01 10:10:00 (2 messages)
   Title: tomatoes
   Content: The leaves of my tomatoes are yellow....

2. Candidate ID: same-talk
   Time: {time} (4 messages)
   Title: lisbon
   Content: I moved to Lisbon and work as a nurse....

## Output Format
{{"decision": "merge", "merge_target_id": "an id", "reason": "why"}}
"""
MERGE = """Merge two episodes.

## Original Episode
Time Range: 2024-03-01 10:00:00 (2 messages)
Title: lisbon
Content: I moved to Lisbon.

## New Episode to Merge
Time Range: 2024-03-01 10:20:00 (2 messages)
Title: dog
Content: I have a dog. I moved to Lisbon.

## Combined Event Details
Original and new.
"""


def text(prompt: str) -> str:
    return read_and_reply([Message("user", prompt)], next(iter(READERS.values())))


def reply(prompt: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(text(prompt))
    return values


def talk(form: str = "{role}: {said}", said: list[str] = TALK) -> str:
    turns = enumerate(said, 1)
    return "\n".join(form.format(n=n, role="user" if n % 2 else "assistant", said=words) for n, words in turns)


def test_a_talk_becomes_an_episode_in_full_with_the_time_at_which_it_began() -> None:
    episode = reply(EPISODE.format(talk=talk("[2026-01-01T00:00:0{n}+00:00] {role}: {said}")))
    assert episode["content"] == "I moved to Lisbon in May and work as a nurse."
    assert "lisbon" in episode["title"]
    assert episode["timestamp"] == "2026-01-01T00:00:01+00:00"


def test_a_message_may_be_a_json_text_and_its_own_time_goes_before_that_of_its_line() -> None:
    said = [json.dumps(f"[Current Time: 2024-03-01] {TALK[0]}"), json.dumps("Two\nlines.")]
    episode = reply(EPISODE.format(talk=talk("[2026-01-01T00:00:0{n}+00:00] {role}: {said}", said)))
    assert episode["timestamp"] == "2024-03-01T00:00:00"
    assert "nurse" in episode["content"]


def test_messages_are_divided_where_the_words_change() -> None:
    said = [*TALK, "My tomatoes have yellow leaves, what helps them?", "Water the tomatoes."]
    parts = reply(SEGMENTS.format(talk=talk("{n}. [2026-01-01 00:00:00] {role}: {said}", said)))["episodes"]
    assert [part["indices"] for part in parts] == [[1, 2], [3, 4]]
    assert parts[1]["topic"] == "tomato"


def test_no_part_of_a_talk_has_a_single_message() -> None:
    alone = "{n}. [2026-01-01 00:00:00] user: {said}"
    said = ["My tomatoes have yellow leaves.", "I moved to Lisbon in May.", "My dog is called Rex."]
    parts = reply(SEGMENTS.format(talk=talk(alone, said)))["episodes"]
    assert [part["indices"] for part in parts] == [[1, 2, 3]]


def test_a_heading_in_a_text_ends_nothing() -> None:
    merged = reply(MERGE.replace("Content: I moved to Lisbon.", "Content: I moved.\n## Part\nTo Lisbon."))
    assert "To Lisbon." in merged["content"]


def test_what_is_known_of_a_title_is_foretold() -> None:
    assert text(PREDICTION) == "I live in Lisbon."


def test_what_was_foretold_is_not_told_again() -> None:
    said = ["I work as a nurse in Lisbon. I keep seven beehives on the roof.", "Nice."]
    told = reply(GAP.format(talk=talk(said=said), foretold="I work as a nurse in Lisbon."))["statements"]
    assert len(told) == 1
    assert "beehives" in told[0]
    assert len(reply(GAP.format(talk=talk(said=said), foretold="Nothing is known."))["statements"]) == 2


def test_an_episode_tells_its_facts() -> None:
    first, second = reply(TOLD)["statements"]
    assert "nurse" in first
    assert "Rex" in second


def test_an_episode_is_merged_with_what_is_alike_and_no_more_than_an_hour_away() -> None:
    assert reply(DECISION.format(time="2024-03-01 10:30:00"))["merge_target_id"] == "same-talk"
    later = reply(DECISION.format(time="2024-03-01 12:30:00"))
    assert (later["decision"], later["merge_target_id"]) == ("new", None)
    assert reply(DECISION.format(time="unknown"))["decision"] == "new"


def test_a_merged_episode_tells_nothing_twice() -> None:
    assert reply(MERGE) == {
        "title": "lisbon",
        "content": "I moved to Lisbon. I have a dog.",
        "timestamp": "2024-03-01T10:00:00",
    }


def test_a_prompt_without_a_talk_or_without_the_form_is_none_of_these() -> None:
    assert "timestamp" not in text(EPISODE.format(talk="Nothing was said."))
    assert not text(EPISODE.replace('"timestamp"', '"when"').format(talk=talk())).startswith('{"title"')
