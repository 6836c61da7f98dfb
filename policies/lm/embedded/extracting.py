"""Memories in the form that a prompt shows, or by a tool that notes one: what packages with a memory ask for."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import Message
from ..tool_texts import calls_text
from .blocks import json_blocks, part_of, value_of
from .describing import TEXTS
from .instructions import Instructions, read_manual
from .sentences import words_of
from .writing import SAME_NOTE, likeness, most_telling_note, noted

_PARTS = re.compile(r"^(?:#{1,6} .*|</?[\w-]+[^>\n]*>)$", re.MULTILINE)
"""Headings and tags on lines of their own."""
_SPEAKER = re.compile(r"^(?:=+ )?(user|human|assistant|ai)(?: message =+\s*|: )", re.IGNORECASE | re.MULTILINE)

_SHOWN = re.compile(r'^Output: *(\{"\w+" *: *\["[^\n]*\]\})$', re.MULTILINE)
"""An example of a reply with a list of texts."""
_FENCED = re.compile(r"^[ \t]*```[ \t]*\n(.*?)\n[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_MERGED = re.compile(r'"event" *: *"<[^>]*>"')
"""The form of a reply that says what becomes of each memory."""

_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}


def extract(messages: Sequence[Message]) -> str | None:
    """Return what the last message's talk tells, as a list in the form that the prompt shows; None where it shows none.

    The form is a JSON object with a list of texts, or of objects that have a text.
    """
    talk, around = _talk_in(messages[-1].content)
    shown = next(filter(None, map(_form_in, reversed(messages))), None) if talk else None
    if shown is None:
        return None
    name, example = shown
    known = [words_of(text).all for text in _listed_in(messages[-1].content)]
    notes = noted(_instructions(messages[:-1], around), talk)
    new = [note for note in notes if all(likeness(words_of(note).all, words) <= SAME_NOTE for words in known)]
    items = [_item(example, note, _who_said(note, talk), place) for place, note in enumerate(new)]
    return json.dumps({name: items}, ensure_ascii=False)


def facts_to_merge(text: str) -> tuple[str, dict[str, str], list[str]] | None:
    """Return instructions, known memories by id, and new facts, of a prompt that shows both as Python's lists.

    None where it asks for no events.
    """
    if _MERGED.search(text) is None:
        return None
    fences = [(fence[0], _literal(fence[1].strip())) for fence in _FENCED.finditer(text)]
    lists = [value for _, value in fences if isinstance(value, list)]
    if not lists or not all(isinstance(fact, str) for fact in lists[-1]):
        return None
    known = {str(m["id"]): str(m["text"]) for m in lists[0] if isinstance(m, dict) and {"id", "text"} <= m.keys()}
    for source, _ in [*fences, *json_blocks(text)]:
        text = text.replace(source, "", 1)
    return text, known, lists[-1]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def extract_by_tools(tools: Sequence[Mapping[str, Any]], messages: Sequence[Message]) -> str | None:
    """Return a call of the first tool that takes a text for each thing that the last message's talk tells.

    None where there is no such tool, or no talk.
    """
    texts = ((tool["name"], _text_of(tool.get("parameters"))) for tool in tools)
    name, text = next(((name, text) for name, text in texts if text), ("", ""))
    talk, around = _talk_in(messages[-1].content)
    if not text or not talk:
        return None
    instructions = _instructions(messages[:-1], around)
    notes = noted(instructions, talk) or most_telling_note(instructions, talk)
    return calls_text([(name, {text: note}) for note in notes]) if notes else None


def _instructions(before: Sequence[Message], around: str) -> Instructions:
    """Read what is asked for, without examples."""
    text = "\n".join([*(message.content for message in before), around])
    for source, _ in json_blocks(text):
        text = text.replace(source, "", 1)
    return read_manual(text)


def _form_in(message: Message) -> tuple[str, Mapping[str, Any] | str] | None:
    """Return the name of the list that a message shows last, and one of its items."""
    for example in reversed([*_SHOWN.finditer(message.content)]):
        value = value_of(example[1])
        if isinstance(value, dict) and len(value) == 1:
            ((name, (item, *_)),) = value.items()
            return name, str(item)
    for _, value in reversed(list(json_blocks(message.content))):
        if isinstance(value, dict) and len(value) == 1:
            ((name, items),) = value.items()
            if isinstance(items, list) and items and isinstance(items[0], dict) and "event" not in items[0]:
                return (name, items[0]) if any(key in items[0] for key in TEXTS) else None
    return None


def _talk_in(text: str) -> tuple[list[dict[str, str]], str]:
    """Return the talk in the last part of a text in which people speak, and the text without it."""
    for part in reversed(_PARTS.split(text)):
        turns = list(_SPEAKER.finditer(part))
        ends = [*(turn.start() for turn in turns[1:]), len(part)]
        if turns:
            talk = [(turn[1].lower(), part[turn.end() : end].strip()) for turn, end in zip(turns, ends, strict=True)]
            return [{"role": _ROLES[speaker], "content": said} for speaker, said in talk], text.replace(part, "")
    return [], text


def _who_said(note: str, talk: Sequence[Mapping[str, str]]) -> str:
    """Return the role of who says most of a note's words."""
    words = words_of(note).all
    return max(talk, key=lambda turn: len(words & words_of(turn["content"]).all))["role"]


def _listed_in(text: str) -> list[str]:
    """Return the texts of the memories that a prompt lists as JSON."""
    lists = (value for _, value in json_blocks(text) if isinstance(value, list))
    items = (item for value in lists for item in value if isinstance(item, dict))
    return [str(item[key]) for item in items for key in TEXTS if key in item]


def _text_of(schema: Any) -> str:
    """Return the name of the text that a tool takes; empty where it takes none by such a name."""
    fields = part_of(schema, "properties")
    return next((key for key in TEXTS if part_of(fields, key).get("type") == "string"), "")


def _item(example: Mapping[str, Any] | str, note: str, who: str, place: int) -> dict[str, Any] | str:
    """Return a note in the form of an example, with who said it and its number."""
    if isinstance(example, str):
        return note
    text = next(key for key in TEXTS if key in example)
    values = {"id": str(place), text: note} | {key: who for key, value in example.items() if value in _ROLES.values()}
    return {key: values[key] for key in example if key in values}
