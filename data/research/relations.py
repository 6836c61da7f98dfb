"""How one thing leads to another, in words: the sentences, questions and queries of made-up dossiers."""

from __future__ import annotations

import re
from functools import cache

from pydantic import ValidationError

from ..record import Record, first_problem
from ..resources import load_yaml, resource
from ..task import TaskError
from .names import FORMS


class Relation(Record):
    """What leads from a thing of one kind to another; its texts have ``{subject}``, ``{value}`` and ``{part}``."""

    from_: str
    to: str
    statements: tuple[str, ...]
    question: str
    reworded: str
    described: str
    query: str
    topic: str


class Relations(Record):
    """All that dossiers say."""

    parts: tuple[str, ...]
    """What ``{part}`` stands for."""
    relations: dict[str, Relation]
    """Those that lead to a thing which the next question can be about."""
    ends: dict[str, Relation]
    """Those that end a chain."""
    correction: str
    corrected_title: str
    herring: str

    @property
    def words(self) -> frozenset[str]:
        """All words of the texts and of the forms of names, in lower case."""
        texts = (self.model_dump_json(), *(form for forms in FORMS.values() for form in forms))
        return frozenset(word.lower() for text in texts for word in re.findall("[A-Za-z]+", text))


@cache
def bundled_relations() -> Relations:
    """Return the relations that ship."""
    values = load_yaml(resource("data", "research", "relations.yaml").read_text(encoding="utf-8"))
    for kind in ("relations", "ends"):
        for relation in values[kind].values():
            relation["from_"] = relation.pop("from")
    try:
        return Relations.model_validate(values)
    except ValidationError as error:
        raise TaskError(f"relations.yaml: {first_problem(error)}") from None


def said(text: str, *, part: str = "", **slots: str) -> str:
    """Return a text with its slots filled; those that are not given stay."""
    for slot, value in (("part", part), *slots.items()):
        text = text.replace("{" + slot + "}", value)
    return text
