"""The form that a prompt shows for notes: what is told about a note besides its text, and how steps are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...text import stems
from .blocks import WORD
from .relating import related, relation_form
from .shown import ADDS, REPLACES, Block

TEXTS = ("text", "content", "memory", "fact", "note")
"""Names under which a memory's text is asked for, the first that is there."""
EXPECTED = ("expected", "expectation", "prediction", "predicted")
"""Names under which is asked first what is known already of a talk."""
_STEP = re.compile(r"[A-Z]{3,}")
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


def events_in(blocks: Sequence[Block]) -> Events | None:
    """Return how a prompt's JSON calls the steps; None where it shows none.

    A step with a text adds it, and one with an id too replaces what is known; or their names say so.
    """
    for value in (block.value for block in reversed(blocks)):
        for name, steps in value.items() if isinstance(value, dict) else ():
            shown = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
            adds, replaces = (
                [s["event"] for s in shown if "event" in s and "text" in s and ("id" in s) is known]
                for known in (False, True)
            )
            words = [word for step in shown for word in _STEP.findall(str(step.get("event", "")))]
            add, replaced = (next(filter(words.__contains__, names), "") for names in (ADDS, REPLACES))
            if adds and replaces:
                return Events(name, add or adds[0], replaces[0], none="")
            if add and replaced:
                return Events(name, add, replaced, none="")
    return None


def fact_form(blocks: Sequence[Block]) -> Mapping[str, Any] | None:
    """Return the example of a fact with fields that a prompt's JSON shows; None where facts are plain texts."""
    for value in (block.value for block in reversed(blocks)):
        facts = value.get("facts") if isinstance(value, dict) else None
        example = facts[0] if isinstance(facts, list) and facts else None
        if isinstance(example, dict) and (relation_form(example) or any(key in example for key in TEXTS)):
            return dict(example)
    return None


def expectation_in(blocks: Sequence[Block]) -> str:
    """Return the name under which a prompt's JSON asks for what is known already; empty where it does not."""
    forms = (block.value for block in blocks if isinstance(block.value, dict) and "facts" in block.value)
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
