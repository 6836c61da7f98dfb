"""Things and relations between them, where tools take them as lists: what packages that keep a graph ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...text import STOP_WORDS, sentences
from ..base import Message
from ..tool_texts import calls_text
from .blocks import part_of
from .describing import entities

THING, KIND = "entity", "entity_type"
RELATION = ("source", "relationship", "destination")
MOST_END = 6
"""Words of the thing that a relation leads to."""

_SELF = re.compile(r"use (?:\"?user_id: )?([\w-]+)\"? as the source entity", re.IGNORECASE)
_TEXT = re.compile(r"\bText: (.*)\Z", re.DOTALL)
_SUBJECT = re.compile(r"^(?:i|we|the user|user)(?:'(?:m|ve|d|ll|re)| have| had)? ", re.IGNORECASE)
_CLAUSE = re.compile(r",| and | but | because ")


def call_graph_tools(tools: Sequence[Mapping[str, Any]], messages: Sequence[Message]) -> str | None:
    """Return a call of the tool that takes things, or relations, with those of the last message's text.

    None where no tool takes either. Where a tool takes one relation, to delete it, nothing is called: what was said
    once may hold beside the news.
    """
    text = messages[-1].content
    asked = _TEXT.search(text)
    said = asked[1] if asked is not None else text
    known = _SELF.search("\n".join(message.content for message in messages[:-1]))
    user = known[1] if known is not None else "user"
    for tool in tools:
        fields = part_of(tool.get("parameters"), "properties")
        if {*RELATION} <= fields.keys():
            return "No relation is to be deleted."
        for name, schema in fields.items():
            parts = part_of(part_of(schema, "items"), "properties").keys()
            if {THING, KIND} <= parts:
                return calls_text([(tool["name"], {name: _things(said, user)})])
            if {*RELATION} <= parts:
                relations = [*_relations(said, user)]
                return calls_text([(tool["name"], {name: relations})]) if relations else "It tells no relation."
    return None


def _things(text: str, user: str) -> list[dict[str, str]]:
    names = dict.fromkeys([user, *(name for sentence in sentences(text) for name in entities(sentence))])
    return [{THING: name, KIND: "person" if name == user else "thing"} for name in names]


def _relations(text: str, user: str) -> Iterator[dict[str, str]]:
    """Yield what the user's own statements tell: their last words are what the words before lead to."""
    for sentence in sentences(text):
        own = _SUBJECT.match(sentence)
        if own is None or sentence.endswith("?"):
            continue
        words = _CLAUSE.split(sentence[own.end() :].strip(" .!"))[0].split()
        small = [word.lower() in STOP_WORDS for word in words]
        first = next((place for place in range(len(words)) if small[place]), 0)
        end = next((place for place in range(first, len(words)) if not small[place]), 0) or 1
        if end < len(words):
            ends = (user, "_".join(words[:end]), " ".join(words[end : end + MOST_END]))
            yield dict(zip(RELATION, ends, strict=True))
