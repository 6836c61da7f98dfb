"""Links between notes, where a prompt shows known and new ones and a form with links."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .describing import TEXTS
from .sentences import words_of
from .writing import SAME_MATTER, likeness

RELATED = 0.15
"""Likeness from which on two notes belong together."""
MOST_LINKS, MOST_KEYWORDS = 3, 8
Notes = Mapping[str, Mapping[str, Any]]


def notes_to_link(blocks: Sequence[tuple[str, Any]]) -> tuple[Notes, Notes] | None:
    """Return the known and the new notes, by id, where a prompt's JSON shows both and a form with links."""
    values = [value for _, value in blocks if isinstance(value, dict)]
    notes = [value for value in values if value and all(map(_is_note, value.values()))]
    asked = any(isinstance(value.get("links"), list) for value in values)
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
                before = keywords.get(key) or list(known[key].get("keywords", ()))
                keywords[key] = [*dict.fromkeys([*before, *note.get("keywords", ())])][:MOST_KEYWORDS]
    changes = [{"id": key, "keywords": words} for key, words in keywords.items()]
    return json.dumps({"links": links, "changes": changes}, ensure_ascii=False)


def _is_note(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(key), str) for key in TEXTS)


def _text(note: Mapping[str, Any]) -> str:
    return next(str(note[key]) for key in TEXTS if key in note)
