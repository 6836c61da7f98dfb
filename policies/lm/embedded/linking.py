"""What new notes do to known ones, where a prompt shows both: links between notes, and relations that are obsolete."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...text import stems
from .describing import TEXTS
from .instructions import read_instructions
from .relating import PARTS, relation_form
from .sentences import words_of
from .shown import Block, in_order
from .writing import SAME_MATTER, likeness, same_from

RELATED = 0.15
"""Likeness from which on two notes belong together."""
MOST_LINKS, MOST_KEYWORDS = 3, 8
OBSOLETE = ("outdated", "obsolete", "invalid", "replaced")
"""Names under which it is asked what is no longer true."""
SPEAKER = re.compile(r"^(?:user|assistant): ")
"""Who has said it, before a note that is a message."""
Notes = Mapping[str, Mapping[str, Any]]


def notes_to_link(blocks: Sequence[Block]) -> tuple[Notes, Notes] | None:
    """Return the known and the new notes, by id, where a prompt's JSON shows both and a form with links."""
    notes = in_order(blocks, _are_notes)
    asked = any(isinstance(block.value, dict) and isinstance(block.value.get("links"), list) for block in blocks)
    return (notes[0], notes[1]) if asked and len(notes) > 1 else None


def link_notes(known: Notes, new: Notes) -> str:
    """Return the links from new to known notes, and the known ones about the same matter with more keywords."""
    links: list[dict[str, Any]] = []
    keywords: dict[str, list[str]] = {}
    for number, note in new.items():
        words = words_of(_text(note)).all
        alike = {key: likeness(words, words_of(_text(other)).all) for key, other in known.items()}
        closest = sorted((key for key in known if alike[key] >= RELATED), key=lambda key: -alike[key])[:MOST_LINKS]
        if closest:
            links.append({"note": number, "to": closest})
        for key in closest:
            if alike[key] >= SAME_MATTER:
                before = keywords.get(key) or _keywords(known[key])
                keywords[key] = [*dict.fromkeys([*before, *_keywords(note)])][:MOST_KEYWORDS]
    changes = [{"id": key, "keywords": words} for key, words in keywords.items()]
    return json.dumps({"links": links, "changes": changes}, ensure_ascii=False)


def relations_to_settle(blocks: Sequence[Block]) -> tuple[Notes, Notes, str, Mapping[str, Any]] | None:
    """Return known and new relations, by id, and the name and an item of the list of what is obsolete.

    None where a prompt's JSON does not show all of that.
    """
    values = [block.value for block in blocks if isinstance(block.value, dict)]
    relations = in_order(blocks, _are_relations)
    asked = [
        (name, value[name][0])
        for value in values
        for name in OBSOLETE
        if isinstance(value.get(name), list) and value[name] and isinstance(value[name][0], dict)
    ]
    return (relations[0], relations[1], *asked[-1]) if asked and len(relations) > 1 else None


def settle(prompt: str, known: Notes, new: Notes, name: str, example: Mapping[str, Any]) -> str:
    """Return which known relations are obsolete, each by the new one that speaks most of the same matter."""
    instructions = read_instructions(prompt)
    left = {key: _said(relation) for key, relation in known.items()}
    steps: list[dict[str, Any]] = []
    for number, relation in new.items():
        source, said = _said(relation)
        words = words_of(said).all
        alike = ((likeness(words, words_of(other).all), key) for key, (who, other) in left.items() if who == source)
        like, closest = max(alike, default=(0.0, ""))
        if like > same_from(said, instructions) and not instructions.appends:
            left.pop(closest)
            steps.append({key: closest if key == "id" else number for key in example})
    return json.dumps({name: steps}, ensure_ascii=False)


def _said(relation: Mapping[str, Any]) -> tuple[frozenset[str], str]:
    """Return the words of a relation's source, and what is said of it."""
    source, *said = (next(str(relation[name]) for name in names if name in relation) for names in PARTS)
    return frozenset(stems(source)), " ".join(said)


def _are_notes(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_is_note, value.values()))


def _are_relations(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(relation_form, value.values()))


def _is_note(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(key), str) for key in TEXTS)


def _keywords(note: Mapping[str, Any]) -> list[str]:
    words = note.get("keywords")
    return [*map(str, words)] if isinstance(words, list) else []


def _text(note: Mapping[str, Any]) -> str:
    return SPEAKER.sub("", next(str(note[key]) for key in TEXTS if key in note))
