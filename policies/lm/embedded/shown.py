"""What a prompt shows as JSON: what is to be read, examples, and forms of a reply; these need not be strictly JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import json_repair

from .wording import hits_of

MOST_TRIES = 100
"""Brackets that are looked at: a text with more is no prompt."""
LONGEST_FORM = 2000
"""Characters of a form that is not strictly JSON."""
DEEPEST = 5
"""Objects around what a payload holds, or around a key of a form."""
LONGEST_LEAD = 120
"""Characters before a block that lead to it."""

_OPENING = re.compile(r"(?<![\w\\])(?=\{\{?\s*(?:[\"'}]|\w+\s*:)|\[\s*[\"{\]])")
_LOOSE = re.compile(r"\{\{?\s*[\"']?\w+[\"']?\s*:")
_TALK = re.compile(r"\[\s*\{\s*\"role\"\s*:")
"""What a conversation begins with, which is no part of a form."""
_BRACKET_OR_TEXT = re.compile(r'[\[\]{}]|"(?:[^"\\\n]|\\.)*"')
_EXAMPLE = re.compile(
    r"(?<![a-z])(?:for )?(?:examples?|samples?)(?![a-z])|\b(?:e\.g|such as|for instance|suppose|would be)\b",
    re.IGNORECASE,
)
"""What leads to an example, in its line or at the start of a line of its paragraph."""
_REPLY = re.compile(
    r"\b(?:like|looks?|form|format|shape|schema|returns?|reply|replies|respond|response|outputs?|answers?|gives?|"
    r"produces?)\b|\b(?:print|send|as|in|with|valid|write)\b.*\bjson\W*$|^json\W*$",
    re.IGNORECASE,
)
"""What leads to the form of a reply, where it says nothing of what there is already."""
_PRESENT = re.compile(
    r"\b(?:current|existing|old|stored|previous|last|known|so far|actual|actually|real|now|present)\b", re.IGNORECASE
)
_SETS_APART = (":", ">", '"', "'", "`", "*", "|", "(")
_PLACE = re.compile(r"\.\.\.|\u2026|<[^<>]{1,60}>")
"""What stands in a form where a text goes."""
ADDS, REPLACES = ("APPEND", "ADD", "INSERT", "CREATE"), ("REPLACE", "UPDATE", "MODIFY", "EDIT")
"""Names of the steps that add a memory and that replace one, the first that is there."""
_EVENT = re.compile(
    "|".join((*ADDS, *REPLACES, "DELETE", "REMOVE", "ARCHIVE", "KEEP", "MERGE", "NONE", "NOOP", "NOTHING"))
)
_NEW = frozenset({"~new", "~fresh"})
"""Groups of words that lead to what is new."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of JSON in a text."""

    start: int
    """The place of its first character."""
    source: str
    value: Any
    starts_line: bool
    lead: str
    """The words that lead to it: those before it in its line or, where it has none, in the last line that has some."""
    is_example: bool
    """Whether these words, or those at the start of a line before them in its paragraph, say that it is an example."""

    @property
    def has_lines(self) -> bool:
        """Whether it has several lines, as what a program shows mostly has."""
        return "\n" in self.source

    @property
    def is_apart(self) -> bool:
        """Whether it stands by itself: what a sentence goes on with is only mentioned."""
        return self.has_lines or self.starts_line or self.lead.rstrip().endswith(_SETS_APART)

    @property
    def is_reply(self) -> bool:
        """Whether the words before it say that it is what a reply looks like."""
        return _REPLY.search(self.lead) is not None and _PRESENT.search(self.lead) is None

    @property
    def is_form(self) -> bool:
        """Whether it only has places for texts, names of events, or a step by which memories change."""
        values = [*self.value.values()] if isinstance(self.value, dict) else self.value
        parts = [part for value in values for part in (value.values() if isinstance(value, dict) else (value,))]
        is_mentioned = not values and not self.starts_line and self.is_reply
        return is_mentioned or self._is_step or _are(_PLACE, parts) or _are(_EVENT, parts)

    @property
    def _is_step(self) -> bool:
        return isinstance(self.value, dict) and _EVENT.fullmatch(str(self.value.get("event"))) is not None


def blocks_in(text: str) -> list[Block]:
    """Return the JSON objects and lists of a text, also those inside a line, and forms that are nearly JSON."""
    return list(_blocks(text))


def _blocks(text: str) -> Iterator[Block]:
    decoder, end, tries, lead = json.JSONDecoder(strict=False), 0, 0, ""
    for match in _OPENING.finditer(text):
        start = match.start()
        if start < end:
            continue
        tries += 1
        if tries > MOST_TRIES:
            return
        try:
            value, after = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, after = _loose(text, start)
            if value is None:
                continue
        if _holds_others(value):
            continue
        before, is_first = text[end:start], end == 0
        _, breaks, indent = before.rpartition("\n")
        lead = _lead(before) if breaks or is_first else f"{lead} {before}"[-LONGEST_LEAD:]
        starts_line = bool(breaks or is_first) and not indent.strip()
        above = text[:start].rpartition("\n\n")[2].splitlines()
        opens = _PRESENT.search(lead) is None and any(_EXAMPLE.match(_without_marks(line)) for line in above)
        is_example = opens or _EXAMPLE.search(lead) is not None
        yield Block(start, text[start:after], value, starts_line, lead, is_example)
        end = after


def _lead(before: str) -> str:
    """Return the last line of what stands before a block that has words besides those of a fence."""
    lines = (line.strip() for line in reversed(before[-2 * LONGEST_LEAD :].splitlines()))
    return next((line[-LONGEST_LEAD:] for line in lines if re.search(r"[^\W\d_]", line) and "```" not in line), "")


def _without_marks(line: str) -> str:
    """Return a line without the marks of a heading, an item or a tag before its first word."""
    return line.lstrip(" \t#*_-<>[(:")


def _loose(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """Return an object that is nearly JSON, as forms are, and where it ends: with comments, gaps or bare words."""
    if _LOOSE.match(text, start) is None:
        return None, start
    depth = 0
    for part in _BRACKET_OR_TEXT.finditer(text, start, start + LONGEST_FORM):
        depth += (part[0] in "[{") - (part[0] in "]}")
        if depth == 0:
            source = text[start : part.end()]
            value = None if _TALK.search(source) else _repaired(source)
            return (value, part.end()) if isinstance(value, dict) and value else (None, start)
    return None, start


def _repaired(source: str) -> object:
    try:
        return json_repair.loads(source)
    except (ValueError, RecursionError):
        return None


def without(text: str, blocks: Sequence[Block]) -> str:
    """Return a text without these blocks."""
    pieces, end = [], 0
    for block in sorted(blocks, key=lambda block: block.start):
        pieces.append(text[end : block.start])
        end = block.start + len(block.source)
    return "".join([*pieces, text[end:]])


def conversation_shown(blocks: Sequence[Block]) -> Block | None:
    """Return the messages that a prompt shows; the last of several."""
    shown = [block for block in blocks if _is_conversation(block.value)]
    return max(shown, key=lambda block: (*_rank(block), block.start), default=None)


def memories_shown(blocks: Sequence[Block], near: Block | None = None) -> Block | None:
    """Return the memories that a prompt shows as an object of texts; None where it has none.

    Of several, those that stand next to what is ``near``, and then the longest.
    """
    shown = [block for block in blocks if isinstance(block.value, dict) and _are_texts(block.value.values())]
    place = blocks.index(near) if near in blocks else 0

    def key(block: Block) -> tuple[tuple[bool, bool, int, bool], int, bool, int]:
        away = abs(blocks.index(block) - place) if near else 0
        return _rank(block), -away, block.starts_line, len(block.source)

    return max(shown, key=key, default=None)


def facts_shown(blocks: Sequence[Block]) -> Block | None:
    """Return the facts that a prompt shows as a list of texts, the longest of several; None where it has none."""
    shown = [block for block in blocks if isinstance(block.value, list) and _are_texts(block.value)]
    return max(shown, key=lambda block: (_rank(block), block.starts_line, len(block.source)), default=None)


def in_order(blocks: Sequence[Block], fits: Callable[[Any], bool]) -> list[Any]:
    """Return the values that fit: examples last, and what the words before it call new behind what is known."""
    shown = [block for block in blocks if block.is_apart and fits(block.value)]
    told = [block for block in shown if not (block.is_example or block.is_reply or block.is_form)]
    pair = (told if len(told) > 1 else shown)[:2]
    return [block.value for block in sorted(pair, key=lambda block: _is_new(block.lead))]


def _is_new(lead: str) -> bool:
    return any(not hit.groups.isdisjoint(_NEW) for hit in hits_of(lead))


def _rank(block: Block) -> tuple[bool, bool, int, bool]:
    """Return what tells a block that is to be read from forms and examples."""
    is_told = not block.is_reply
    return not block.is_form, not block.is_example, is_told + block.has_lines, is_told


def _holds_others(value: Any, depth: int = 0) -> bool:
    """Tell whether an object holds what a prompt shows, as its parts: a conversation, or memories and new facts."""
    if not isinstance(value, dict) or depth > DEEPEST:
        return False
    inner = [*value.values()]
    has_facts = any(isinstance(v, list) and v and _are_texts(v) for v in inner)
    has_memories = any(isinstance(v, dict) and _are_texts(v.values()) for v in inner)
    has_talk = any(_is_conversation(v) and all("role" in message for message in v) for v in inner)
    return (has_facts and has_memories) or has_talk or any(_holds_others(v, depth + 1) for v in inner)


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(m, dict) and "content" in m for m in value)


def _are_texts(values: Collection[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _are(pattern: re.Pattern[str], values: Collection[Any]) -> bool:
    """Tell whether there are values, and all of them match."""
    return bool(values) and all(isinstance(value, str) and pattern.fullmatch(value) is not None for value in values)
