"""Relations between things, where a prompt shows a form with them: a sentence taken apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...text import stems

PARTS = (("source", "subject", "from"), ("relation", "relationship", "predicate"), ("target", "object", "destination"))
"""Names under which the parts of a relation are asked for."""

_SELF = re.compile(r"\b(?:I|[Ww]e)(?:['\u2019](m|ve|d|ll|re))?\s+")
_OWN = re.compile(r"^(?:my|our)\s+([\w-]+)\s*", re.IGNORECASE)
_AUXILIARIES = {"m": "is", "re": "is", "ve": "has", "d": "would", "ll": "will"}
_FIRST = {"a", "an", "the", "my", "our", "his", "her", "their", "some", "this", "that", "these", "two", "three"}
"""Words with which the name of a thing begins."""
_AFTER = {"to", "in", "at", "for", "with", "from", "on", "of", "by", "about", "as", "up", "out", "off"}
"""Words that belong to a relation when they follow it."""


def relation_form(value: Any) -> Mapping[str, Any] | None:
    """Return a form that has all parts of a relation; None for another one."""
    named = isinstance(value, dict) and all(any(name in value for name in names) for names in PARTS)
    return dict(value) if named else None


def related(example: Mapping[str, Any], fact: str) -> dict[str, Any]:
    """Return a sentence in the form of a relation: all of its words, and the user in place of the first person."""
    label, mark, said = fact.partition(": ")
    said, topic = (said, label) if mark and " " not in label else (fact, "")
    source, predicate, before = _taken_apart(said.strip().rstrip(".!?,;"))
    words = predicate.split()
    end = _end_of_relation(words)
    target = ", ".join(filter(None, (" ".join(words[end:]), before, topic)))
    parts = zip(PARTS, (source, " ".join(words[:end]), target), strict=True)
    values = {name: part for names, part in parts for name in names}
    return {key: values[key] for key in example if key in values}


def _taken_apart(said: str) -> tuple[str, str, str]:
    """Return whom or what a sentence is about, what it says of that, and what stands before that."""
    if own := _OWN.match(said):
        return f"user's {own[1]}", said[own.end() :], ""
    if me := _SELF.search(said):
        predicate = filter(None, (_AUXILIARIES.get(me[1]), said[me.end() :]))
        return "user", " ".join(predicate), said[: me.start()].strip(" ,")
    words = said.split()
    start = next((i for i, word in enumerate(words, 1) if stems(word)), len(words))
    return " ".join(words[:start]), " ".join(words[start:]), ""


def _end_of_relation(words: Sequence[str]) -> int:
    """Return how many words, of what is said, name the relation."""
    end = 0
    while end < len(words) and (end == 0 or words[end].lower() not in _FIRST):
        end += 1
        if stems(words[end - 1]):
            break
    while end < len(words) and words[end].lower() in _AFTER:
        end += 1
    return end if end < len(words) else min(1, len(words) - 1) if words else 0
