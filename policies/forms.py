"""The forms of structured replies, as JSON schemas: how a server is asked for what ``replies`` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

ResponseFormat = Literal["json_schema", "json_object", "text"]
"""How a server is asked for a structured reply, the best first."""
Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """The form of a structured reply: a JSON object, with or without a schema."""

    name: str
    """Of letters, digits, ``_`` and ``-``."""
    schema: str | None = None
    """As JSON; None is any object."""
    strict: bool = False
    """Whether the schema is as OpenAI's strict mode wants it: every object has all of its keys and no others."""

    @classmethod
    def of(cls, name: str, schema: Schema) -> ReplyForm:
        """Make a form of a schema."""
        return cls(name, json.dumps(schema, ensure_ascii=False), _is_strict(schema))


ANY_OBJECT = ReplyForm("object")


def record(**fields: Schema) -> Schema:
    """Return the schema of an object that has these keys, and no others."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def some_of(**fields: Schema) -> Schema:
    """Return the schema of an object that has any of these keys, and no others."""
    return {"type": "object", "properties": fields, "additionalProperties": False}


def mapping(values: Schema) -> Schema:
    """Return the schema of an object with any keys, whose values are all alike."""
    return {"type": "object", "additionalProperties": values}


def items(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def one_of(values: Sequence[str]) -> Schema:
    """Return the schema of a text that is one of ``values``; of any text where there are none."""
    return {**TEXT, "enum": list(dict.fromkeys(values))} if values else TEXT


@lru_cache
def number_form(most: int) -> ReplyForm:
    """Return the form of an answer that is a number from 1 to ``most``."""
    return ReplyForm.of("answer", record(answer=NUMBER | {"enum": [*range(1, most + 1)]}))


def choice_form(schema: Mapping[str, Sequence[str]]) -> ReplyForm:
    """Return the form of a reply with one of its values for each key."""
    return _choice_form(tuple((key, tuple(values)) for key, values in schema.items()))


@lru_cache(maxsize=1 << 10)
def _choice_form(schema: tuple[tuple[str, tuple[str, ...]], ...]) -> ReplyForm:
    return ReplyForm.of("choices", record(**{key: one_of(values) for key, values in schema}))


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, dict):
        closed = schema.get("additionalProperties") is False and [*schema["properties"]] == schema.get("required")
        return (schema.get("type") != "object" or closed) and all(map(_is_strict, schema.values()))
    return all(map(_is_strict, schema)) if isinstance(schema, list) else True
