"""Parts of a talk, where a prompt shows a form with a title, a text and a last message for each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .describing import TEXTS, keywords
from .instructions import read_instructions
from .sentences import words_of
from .shown import Block
from .writing import likeness, noted, topic_of

TITLES = ("title", "heading", "headline", "name")
TALES = ("narrative", "story", "summary", "description", *TEXTS)
ENDS = ("last", "end", "until", "to")
SAME_TALK = 0.08
"""Likeness from which on a round goes on with what was talked about."""
WORDS_OF_A_TITLE = 3
Talk = Sequence[Mapping[str, Any]]

_DAY = re.compile(r"^\[Current Time: (\d{4}-\d{2}-\d{2})")


def parts_in(blocks: Sequence[Block]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the name of the list that a prompt's JSON shows for the parts of a talk, and one of its items."""
    for value in (block.value for block in reversed(blocks)):
        for name, items in value.items() if isinstance(value, dict) else ():
            example = items[0] if isinstance(items, list) and items else None
            if isinstance(example, dict) and all(any(key in example for key in keys) for keys in (TITLES, TALES, ENDS)):
                return name, example
    return None


def divide(prompt: str, conversation: list[dict[str, Any]], name: str, example: Mapping[str, Any]) -> str:
    """Return a talk in parts, each in the form of an example: where the day or the words change, another begins."""
    parts = parts_of(conversation)
    notes: list[list[str]] = [[] for _ in parts]
    for note in noted(read_instructions(prompt), conversation):
        words = words_of(note).all
        shared = [max(len(words & words_of(str(m.get("content", ""))).all) for m in part) for part in parts]
        notes[shared.index(max(shared))].append(note)
    told = [_told(example, part, texts) for part, texts in zip(parts, notes, strict=True)]
    return json.dumps({name: told}, ensure_ascii=False)


def parts_of(conversation: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return a talk in parts: each goes on for as long as the day and the words stay."""
    parts: list[list[dict[str, Any]]] = []
    for said in _rounds(conversation):
        if parts and _goes_on(parts[-1], said):
            parts[-1] += said
        else:
            parts.append(said)
    return parts


def _rounds(conversation: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the talk in rounds: each begins with a message of the user."""
    rounds: list[list[dict[str, Any]]] = []
    for message in conversation:
        if rounds and message.get("role") != "user":
            rounds[-1].append(message)
        else:
            rounds.append([message])
    return rounds


def _goes_on(part: Talk, said: Talk) -> bool:
    """Tell whether a round goes on with a part: on the same day, and with some of its words."""
    before, now = _day(part), _day(said)
    return (not now or now == before) and likeness(_words(part), _words(said)) >= SAME_TALK


def as_part(part: Sequence[dict[str, Any]], notes: Sequence[str]) -> tuple[str, str]:
    """Return a title for a part of a talk, and what was noted of it as a narrative."""
    topic = topic_of(part, {})
    title = [word.lower() for word in keywords(" ".join(notes))][:WORDS_OF_A_TITLE] or [topic]
    tale = " ".join(note if note[-1] in ".!?" else f"{note}." for note in notes) or f"The user talks about {topic}."
    return ", ".join(title), tale


def _told(example: Mapping[str, Any], part: Sequence[dict[str, Any]], notes: Sequence[str]) -> dict[str, Any]:
    title, tale = as_part(part, notes)
    values: dict[str, Any] = dict.fromkeys(TITLES, title)
    values |= dict.fromkeys(TALES, tale) | dict.fromkeys(ENDS, str(part[-1].get("number", "")))
    return {key: values[key] for key in example if key in values}


def _day(part: Talk) -> str:
    days = (_DAY.match(str(message.get("content", ""))) for message in part)
    return next((day[1] for day in days if day), "")


def _words(part: Talk) -> frozenset[str]:
    """Return what the user speaks of: answers repeat it, and have phrases of their own besides."""
    said = [message for message in part if message.get("role") == "user"] or part
    return frozenset[str]().union(*(words_of(str(message.get("content", ""))).all for message in said))
