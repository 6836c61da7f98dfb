"""What a model said, put into the form that a JSON schema asks for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..replies import as_text
from ..text import stems

MOST_VALUES = 10_000
"""Values that a schema may ask for, so that a small one cannot ask for a reply without end."""
MOST_CHOICES = 100_000
"""Choices that it may offer, each as often as the value is asked for."""

_READ = {"$ref", "anyOf", "const", "enum", "type", "properties", "required", "items"} | {
    "minItems", "maxItems", "minimum", "maximum",
}  # fmt: skip
_ALONE = ("$ref", "anyOf")
_WITHOUT_EFFECT = {"$defs", "$schema", "additionalProperties", "default", "description", "examples", "title"}
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")


class SchemaError(ValueError):
    """A schema that no reply can be made for; the message says why."""


def fit(said: object, schema: Mapping[str, Any], *, heard: str) -> dict[str, Any]:
    """Return an object that keeps to a JSON schema: what was said, wherever that fits.

    Where it does not fit, a string becomes all that was said, a choice the value most like what was ``heard``, a number
    the first number heard, and a truth value false. Raises SchemaError when the schema does not ask for an object, has
    no end, or holds an unknown keyword.
    """
    try:
        value = _Form(said, schema, heard).value(said, schema)
    except SchemaError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise SchemaError("it is no JSON schema, or is nested too deep") from error
    if not isinstance(value, dict):
        raise SchemaError("it must ask for an object")
    return value


class _Form:
    def __init__(self, said: object, root: Mapping[str, Any], heard: str) -> None:
        self.said = said
        self.root = root
        self.words = frozenset(stems(heard))
        number = _NUMBER.search(heard)
        self.heard_number = float(number[0]) if number else 0.0
        self.left, self.compared = MOST_VALUES, MOST_CHOICES
        self.open: list[str] = []
        """References on the way from the root to here."""

    def value(self, said: object, schema: Mapping[str, Any] | bool) -> Any:
        self.left -= 1
        if self.left < 0:
            raise SchemaError(f"it asks for more than {MOST_VALUES:,} values")
        if isinstance(schema, bool):  # true allows every value, as an empty schema does
            if not schema:
                raise SchemaError("false allows no value")
            schema = {}
        for key in sorted(schema.keys() - _READ - _WITHOUT_EFFECT):
            raise SchemaError(f"{key!r} is not supported")
        for key in _ALONE:
            if key in schema and len(schema.keys() & _READ) > 1:
                raise SchemaError(f"{key!r} must stand alone")
        if "$ref" in schema:
            return self.referred(said, schema["$ref"])
        if "anyOf" in schema:
            return self.first(said, schema["anyOf"])
        if "const" in schema or "enum" in schema:
            return self.nearest(said, schema["enum"] if "enum" in schema else [schema["const"]])
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        match kind := kinds if isinstance(kinds, str) else kinds[0]:
            case "object":
                return self.fields(said, schema)
            case "array":
                return self.items(said, schema)
            case "string":
                return said if isinstance(said, str) else as_text(said)
            case "integer" | "number":
                return self.number(said, schema, whole=kind == "integer")
            case "boolean":
                return said is True
            case "null":
                return None
        raise SchemaError(f"there is no type {kind!r}")

    def referred(self, said: object, place: str) -> Any:
        if place in self.open:
            raise SchemaError(f"{place!r} holds itself without end")
        schema: Any = self.root
        for key in place.split("/")[1:]:
            schema = schema[key]
        self.open.append(place)
        try:
            return self.value(said, schema)
        finally:
            self.open.pop()

    def first(self, said: object, schemas: Sequence[Mapping[str, Any]]) -> Any:
        """Return what was said where it fits a schema, else a value of the first: a tree's branch may end with null."""
        values = []
        for schema in schemas:
            with suppress(SchemaError):
                values.append(self.value(said, schema))
                if values[-1] == said:
                    return values[-1]
        if not values:
            raise SchemaError("none of 'anyOf' has a value")
        return values[0]

    def nearest(self, said: object, options: Sequence[object]) -> object:
        self.compared -= len(options)
        if self.compared < 0:
            raise SchemaError(f"it offers more than {MOST_CHOICES:,} choices in all")
        same = [option for option in options if option == said]
        return same[0] if same else max(options, key=lambda option: len(self.words & {*stems(as_text(option))}))

    def fields(self, said: object, schema: Mapping[str, Any]) -> dict[str, Any]:
        given = said if isinstance(said, dict) else {}
        wanted: dict[str, Mapping[str, Any] | bool] = {name: {} for name in schema.get("required", ())}
        wanted |= schema.get("properties", {})
        if others := schema.get("additionalProperties"):
            wanted |= {name: others for name in given if name not in wanted}
        return {name: self.value(given.get(name, self.said), part) for name, part in wanted.items()}

    def items(self, said: object, schema: Mapping[str, Any]) -> list[Any]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", MOST_VALUES)
        if least > MOST_VALUES:
            raise SchemaError(f"it asks for more than {MOST_VALUES:,} values")
        given = list(said) if isinstance(said, list) and said else [said]
        given += given[-1:] * (least - len(given))
        try:
            return [self.value(item, schema.get("items", {})) for item in given[:most]]
        except SchemaError:
            if least:
                raise
            return []

    def number(self, said: object, schema: Mapping[str, Any], *, whole: bool) -> float:
        number = self.heard_number
        if isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said):
            number = said
        number = max(number, schema.get("minimum", number))
        number = min(number, schema.get("maximum", number))
        return int(number) if whole else float(number)
