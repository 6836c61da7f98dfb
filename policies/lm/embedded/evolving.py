"""What describes a note, and in the forms of A-Mem's own prompts, which of the nearest notes it is linked to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .describing import TEXTS, keywords
from .linking import MOST_LINKS, RELATED, SPEAKER
from .sentences import words_of
from .shown import Block
from .writing import likeness

_ANALYSIS = re.compile(r'"keywords": \[.*"context":.*"tags": \[.*^\s*Content for analysis:\s*(.*)\Z', re.DOTALL | re.M)
_EVOLUTION = re.compile(r"^\s*content: (.*?)^\s*keywords: .*^\s*The nearest neighbors memories", re.DOTALL | re.M)
_CONTENT, _ASKS = "Content for analysis:", '"suggested_connections"'
_NEIGHBOUR = re.compile(
    r"^\s*memory_id:(?P<id>[^\t\n]+)\t.*?memory content: (?P<content>[^\t]*)\tmemory context: (?P<context>[^\t]*)"
    r"\tmemory keywords: [^\t]*\tmemory tags: \[(?P<tags>[^\t]*)\]$",
    re.MULTILINE,
)
NUMBER = "message"
"""The name under which a prompt asks which message is described."""


def describe_note(text: str) -> str | None:
    """Return keywords, a context and tags of the note at the end of a prompt that asks for them; None elsewhere."""
    asked = _ANALYSIS.search(text) if _CONTENT in text else None
    if asked is None:
        return None
    return json.dumps(_description(asked[1]), ensure_ascii=False)


def notes_to_describe(blocks: Sequence[Block]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the name of the list in which a prompt's JSON asks what describes each message, and one of its items."""
    for value in (block.value for block in reversed(blocks)):
        for name, items in value.items() if isinstance(value, dict) else ():
            example = items[0] if isinstance(items, list) and items else None
            if isinstance(example, dict) and NUMBER in example and not any(key in example for key in TEXTS):
                return name, example
    return None


def describe_messages(conversation: Sequence[Mapping[str, Any]], name: str, example: Mapping[str, Any]) -> str:
    """Return what describes each message of a talk, in the form of an example."""
    told = ({NUMBER: str(i)} | _description(str(m.get("content", ""))) for i, m in enumerate(conversation, 1))
    return json.dumps({name: [{key: of[key] for key in example if key in of} for of in told]}, ensure_ascii=False)


def _description(content: str) -> dict[str, Any]:
    words = keywords(SPEAKER.sub("", content.strip()))
    about = max(words, key=len, default="nothing much")
    return {"keywords": words, "context": f"The talk is about {about}.", "tags": [about]}


def evolve_note(text: str) -> str | None:
    """Return which of the notes that a prompt lists the new one is linked to; None where it asks for no such thing."""
    asked = _EVOLUTION.search(text) if _ASKS in text else None
    if asked is None:
        return None
    content = SPEAKER.sub("", asked[1].strip())
    words, known = words_of(content).all, [*_NEIGHBOUR.finditer(text)]
    alike = {note["id"]: likeness(words, words_of(SPEAKER.sub("", note["content"])).all) for note in known}
    closest = sorted((name for name in alike if alike[name] >= RELATED), key=lambda name: -alike[name])[:MOST_LINKS]
    tags = [[tag.strip(" '\"") for tag in note["tags"].split(",") if tag.strip()] for note in known]
    shared = [tag for note, own in zip(known, tags, strict=True) if note["id"] in closest for tag in own]
    telling = max(keywords(content), key=len, default="")
    reply = {
        "should_evolve": bool(closest),
        "actions": ["strengthen"] if closest else [],
        "suggested_connections": closest,
        "tags_to_update": [*dict.fromkeys(filter(None, [telling, *shared]))],
        "new_context_neighborhood": [note["context"] for note in known],
        "new_tags_neighborhood": tags,
    }
    return json.dumps(reply, ensure_ascii=False)
