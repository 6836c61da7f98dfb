"""Memory writes: the model notes what the prompt in front of it asks for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from ...text import sentences, stems
from .reading import about_self, overlap

MOST_NOTES = 4
"""Notes that the model writes in one go."""
CLEAR_FIT = 0.25
"""Fit from which on a note is filed under its kind."""
ENOUGH = 0.5
"""Interest from which on a sentence is noted."""
SAME_MATTER = 0.35
"""Likeness from which on two notes are taken to be about the same matter."""
MOST_KINDS = 24
"""Kinds of information of a prompt that get full attention; with more, each gets less."""

_BULLET = re.compile(r"^\s*(?:[-*\u2022]|\d{1,2}[.)])\s+(.+)$", re.MULTILINE)
_TIME = re.compile(r"^\[Current Time: (\d{4}-\d{2}-\d{2})[^\]]*\]\s*")
_DETAIL = re.compile(
    r"\b(details?|detailed|specific|specifics|exact|exactly|precise|in full|verbatim|own words)\b", re.I
)
_BRIEF = re.compile(r"\b(brief|briefly|short|concise|terse|keywords?)\b", re.IGNORECASE)
_OWN = re.compile(
    r"\b(only about the user|user's own|users? themselves|about themselves|not (?:about )?other people)\b", re.I
)
_REPLACES = re.compile(r"\b(same matter|same subject)\b[^.\n]*\breplaces?\b", re.IGNORECASE)
_DATES = re.compile(r"\b(keep|note|with|include|add)\b[^.\n]*\b(dates?|when it was said)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Instructions:
    """What a write prompt asks for, as far as the model understands it."""

    text: str

    @cached_property
    def kinds(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """The kinds of information asked for, each with its words."""
        lines = [re.sub(r"[*`\"]", "", match[1]).strip() for match in _BULLET.finditer(self.text)]
        return tuple((line, words) for line in lines if (words := frozenset(stems(line))))

    @cached_property
    def words_per_note(self) -> int:
        """How long a note is, in words."""
        if _DETAIL.search(self.text):
            return 40
        return 8 if _BRIEF.search(self.text) else 14

    @cached_property
    def own_only(self) -> bool:
        """Whether other people's doings are to be left out."""
        return _OWN.search(self.text) is not None

    @cached_property
    def dated(self) -> bool:
        """Whether each note is to carry the day on which it was said."""
        return _DATES.search(self.text) is not None

    def kind_of(self, words: frozenset[str]) -> tuple[str, float]:
        """Return the kind that fits best and how well, in [0, 1]; many kinds blur each other."""
        best, fit = "", 0.0
        for line, kind in self.kinds:
            match = overlap(words, kind, {})
            if match > fit:
                best, fit = line, match
        return best, fit * min(1.0, MOST_KINDS / max(len(self.kinds), 1))


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth remembering."""

    text: str
    words: frozenset[str]
    kind: str
    """The kind of information that it clearly belongs to; empty when there is none."""
    interest: float
    order: int


@lru_cache(maxsize=256)
def _instructions(text: str) -> Instructions:
    return Instructions(text)


def write_profile(instructions: str, memories: dict[str, str], conversation: Sequence[dict[str, Any]]) -> str:
    """Return a JSON object of the labels to add or overwrite."""
    asked = _instructions(instructions)
    changed: dict[str, str] = {}
    for note in _notes(asked, conversation):
        changed[_label(note, memories | changed)] = note.text
    return json.dumps(changed, ensure_ascii=False)


def write_facts(instructions: str, conversation: Sequence[dict[str, Any]]) -> str:
    """Return a JSON object with a list of facts."""
    asked = _instructions(instructions)
    return json.dumps({"facts": [note.text for note in _notes(asked, conversation)]}, ensure_ascii=False)


def merge_facts(instructions: str, memories: dict[str, str], facts: Sequence[str]) -> str:
    """Decide what each new fact does to the known ones."""
    like = SAME_MATTER * (0.75 if _REPLACES.search(instructions) else 1.0)
    known = {key: frozenset(stems(text)) for key, text in memories.items()}
    events: list[dict[str, str]] = []
    for fact in facts:
        words = frozenset(stems(fact))
        likeness, key = max(((overlap(words, others, {}), key) for key, others in known.items()), default=(0.0, ""))
        if likeness > 0.95:
            events.append({"event": "NONE", "id": key})
        elif likeness > like:
            events.append({"event": "UPDATE", "id": key, "text": fact})
            known.pop(key)
        else:
            events.append({"event": "ADD", "text": fact})
    return json.dumps({"memory": events}, ensure_ascii=False)


def _notes(asked: Instructions, conversation: Sequence[dict[str, Any]]) -> list[Note]:
    """Return the most interesting notes, at most as many as the model writes in one go, in the order they were said."""
    found = [note for note in _candidates(asked, conversation) if note.interest >= ENOUGH]
    best = sorted(found, key=lambda note: (-note.interest, note.order))[:MOST_NOTES]
    return sorted(best, key=lambda note: note.order)


def _candidates(asked: Instructions, conversation: Sequence[dict[str, Any]]) -> Iterator[Note]:
    order = 0
    for message in conversation:
        content = str(message.get("content", ""))
        if message.get("role") != "user":
            continue
        day = _TIME.match(content)
        for text in sentences(_TIME.sub("", content)):
            words = frozenset(stems(text))
            if text.endswith("?") or len(words) < 2:
                continue
            kind, fit = asked.kind_of(words)
            own = about_self(text)
            interest = (0.6 if own else 0.0 if asked.own_only else 0.5) + fit
            note = _shorten(text, asked, day[1] if day else None)
            yield Note(note, words, kind if fit >= CLEAR_FIT else "", interest, order)
            order += 1


def _shorten(text: str, asked: Instructions, day: str | None) -> str:
    words = text.split()
    short = " ".join(words[: asked.words_per_note])
    return f"{short} ({day})" if asked.dated and day else short


def _label(note: Note, memories: dict[str, str]) -> str:
    """Return the label that the note belongs under: one with a like text, else a new one named after kind and words."""
    likeness, label = max(
        ((overlap(note.words, frozenset(stems(f"{key} {text}")), {}), key) for key, text in memories.items()),
        default=(0.0, ""),
    )
    if likeness > SAME_MATTER:
        return label
    if note.kind:
        return "_".join(stems(note.kind)[:4])
    return "_".join(word for word, _ in Counter(stems(note.text)).most_common(2)) or "note"
