"""The form that a prompt shows for notes: what is told about a note besides its text, and how steps are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...text import stems
from .blocks import WORD
from .relating import related, relation_form

TEXTS = ("text", "content", "memory", "fact", "note")
"""Names under which a memory's text is asked for, the first that is there."""
EXPECTED = ("expected", "expectation", "prediction", "predicted")
"""Names under which is asked first what is known already of a talk."""
MOST_ENTITIES, MOST_KEYWORDS = 3, 5


@dataclass(frozen=True, slots=True)
class Events:
    """How a prompt calls the steps by which memories change."""

    name: str = "memory"
    """Of the list of steps."""
    add: str = "ADD"
    replace: str = "UPDATE"
    none: str = "NONE"
    """Where a memory stays as it is; empty where nothing is said of it."""


def events_in(blocks: Sequence[tuple[str, Any]]) -> Events | None:
    """Return how a prompt's JSON calls the steps; None where it shows none.

    A step with a text adds it, and one with an id too replaces what is known.
    """
    for _, value in reversed(blocks):
        for name, steps in value.items() if isinstance(value, dict) else ():
            shown = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
            adds, replaces = (
                [s["event"] for s in shown if "event" in s and "text" in s and ("id" in s) is known]
                for known in (False, True)
            )
            if adds and replaces:
                return Events(name, adds[0], replaces[0], none="")
    return None


def fact_form(blocks: Sequence[tuple[str, Any]]) -> Mapping[str, Any] | None:
    """Return the example of a fact with fields that a prompt's JSON shows; None where facts are plain texts."""
    for _, value in reversed(blocks):
        facts = value.get("facts") if isinstance(value, dict) else None
        example = facts[0] if isinstance(facts, list) and facts else None
        if isinstance(example, dict) and (relation_form(example) or any(key in example for key in TEXTS)):
            return dict(example)
    return None


def expectation_in(blocks: Sequence[tuple[str, Any]]) -> str:
    """Return the name under which a prompt's JSON asks for what is known already; empty where it does not."""
    forms = (value for _, value in blocks if isinstance(value, dict) and "facts" in value)
    return next((key for form in forms for key in EXPECTED if key in form), "")


def described(example: Mapping[str, Any], fact: str, topic: str) -> dict[str, Any]:
    """Return a fact in the form of an example; fields with other names are left out."""
    if relation_form(example):
        return related(example, fact)
    text = next(key for key in TEXTS if key in example)
    values: dict[str, Any] = {text: fact, "entities": entities(fact), "keywords": keywords(fact)}
    values |= {"tags": [topic], "context": f"The user talks about {topic}."}
    return {key: values[key] for key in example if key in values}


def entities(text: str) -> list[str]:
    """Return what a text names: words with a capital inside a sentence, and then its longest words."""
    words = [*WORD.finditer(text)]
    names = [m[0] for m in words if m[0][0].isupper() and text[: m.start()].rstrip(" ")[-1:] not in ("", ".", "?", "!")]
    longest = sorted(_telling(text), key=lambda word: -len(word))
    return [*dict.fromkeys([*filter(stems, names), *longest])][:MOST_ENTITIES]


def keywords(text: str) -> list[str]:
    """Return the words that tell most, in the order of the text."""
    words = _telling(text)
    longest = sorted(words, key=lambda word: -len(word))[:MOST_KEYWORDS]
    return [word for word in words if word in longest]


def _telling(text: str) -> list[str]:
    return [*dict.fromkeys(word for word in WORD.findall(text) if stems(word))]
