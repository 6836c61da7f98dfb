"""Replies in the form that a JSON schema asks for.

Invariant: whatever a schema holds, the reply keeps to it, or the schema is refused.
"""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm.schemas import MOST_VALUES, SchemaError, fit

HEARD = "My 2 cats like blue cushions, 3.5 hours a day."


def fitted(said: object, kind: dict[str, Any] | bool, **definitions: Any) -> Any:
    """Return what becomes of a field's value when ``said`` is the reply."""
    schema = {"type": "object", "properties": {"field": kind}, "$defs": definitions}
    reply = fit(said, schema, heard=HEARD)
    jsonschema.validate(reply, schema)
    return reply["field"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "string"}, "fine"),
        ({}, "fine"),
        (True, "fine"),
        ({"type": ["string", "null"]}, "fine"),
        ({"type": "integer"}, 2),
        ({"type": "number"}, 2.0),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "number", "maximum": 0.5}, 0.5),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"enum": ["red", "blue", "green"]}, "blue"),
        ({"enum": ["x", "y"]}, "x"),
        ({"const": 7}, 7),
        ({"type": "array", "items": {"type": "integer"}}, [2]),
        ({"type": "array", "minItems": 2, "maxItems": 3}, ["fine", "fine"]),
        ({"type": "array", "maxItems": 0}, []),
        ({"type": "object"}, {}),
        ({"type": "object", "required": ["a"]}, {"a": "fine"}),
        ({"properties": {"a": {"type": "boolean"}}}, {"a": False}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2),
    ],
)
def test_a_text_becomes_a_value_of_the_kind_that_is_asked_for(kind: dict[str, Any] | bool, value: object) -> None:
    assert fitted("fine", kind) == value


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("a text", {"type": "string"}),
        (9, {"type": "integer"}),
        (9.5, {"type": "number"}),
        (True, {"type": "boolean"}),
        ("green", {"enum": ["blue", "green"]}),
        (["a", "b"], {"type": "array", "items": {"type": "string"}}),
        ({"b": 1}, {"type": "object", "properties": {"b": {"type": "integer"}}}),
    ],
)
def test_a_value_that_was_said_is_kept_where_it_fits(said: object, kind: dict[str, Any]) -> None:
    assert fitted({"field": said}, kind) == said


def test_a_number_that_nobody_named_is_zero() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert fit("None at all.", schema, heard="How many?") == {"n": 0}


def test_a_value_that_does_not_fit_is_made_to() -> None:
    assert fitted({"field": [1]}, {"type": "string"}) == "[1]"
    assert fitted({"field": "many"}, {"type": "integer"}) == 2
    assert fitted({"field": 9}, {"type": "integer", "maximum": 5}) == 5
    assert fitted({"other": 1}, {"type": "string"}) == '{"other": 1}'


def test_references_are_followed_and_end_where_a_definition_holds_itself() -> None:
    tree = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            "branches": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        },
    }
    assert fitted("fine", {"$ref": "#/$defs/tree"}, tree=tree) == {"name": "fine", "next": None, "branches": []}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ({"type": "string", "pattern": "^a"}, "'pattern' is not supported"),
        ({"oneOf": [{"type": "null"}]}, "'oneOf' is not supported"),
        ({"anyOf": [{"type": "string"}], "type": "null"}, "'anyOf' must stand alone"),
        ({"type": "date"}, "no type 'date'"),
        (False, "false allows no value"),
        ({"$ref": "#/$defs/nowhere"}, "no JSON schema"),
        ({"$ref": "#/properties/field"}, "holds itself without end"),
        ({"enum": []}, "no JSON schema"),
        ({"type": 3}, "no JSON schema"),
        ({"type": "array", "minItems": 10**9}, f"more than {MOST_VALUES:,} values"),
        ({"type": "array", "minItems": 1, "items": {"$ref": "#/properties/field"}}, "holds itself without end"),
    ],
)
def test_a_schema_that_no_reply_can_be_made_for_is_refused_with_the_reason(
    kind: dict[str, Any] | bool, why: str
) -> None:
    with pytest.raises(SchemaError, match=why.replace("$", r"\$")):
        fitted("fine", kind)


def test_a_schema_must_ask_for_an_object() -> None:
    with pytest.raises(SchemaError, match="an object"):
        fit("fine", {"type": "string"}, heard="")


def test_a_small_schema_cannot_ask_for_a_reply_without_end() -> None:
    doubling = {f"d{i}": {"properties": {x: {"$ref": f"#/$defs/d{i + 1}"} for x in "ab"}} for i in range(40)}
    with pytest.raises(SchemaError, match=f"more than {MOST_VALUES:,} values"):
        fitted("fine", {"$ref": "#/$defs/d0"}, **doubling, d40={})
    deep: dict[str, Any] = {}
    for _ in range(2000):
        deep = {"properties": {"a": deep}}
    with pytest.raises(SchemaError, match="nested too deep"):
        fit("fine", deep, heard="")


KINDS = st.recursive(
    st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean", "null", "object")])
    | st.builds(lambda low: {"type": "integer", "minimum": low, "maximum": low + 3}, st.integers(-5, 5))
    | st.builds(lambda options: {"enum": options}, st.lists(st.integers() | st.text(max_size=5), min_size=1)),
    lambda kinds: (
        st.builds(lambda items, n: {"type": "array", "items": items, "minItems": n}, kinds, st.integers(0, 2))
        | st.builds(
            lambda fields: {"type": "object", "properties": fields}, st.dictionaries(st.text(max_size=3), kinds)
        )
        | st.builds(lambda options: {"anyOf": options}, st.lists(kinds, min_size=1, max_size=3))
    ),
    max_leaves=8,
)
SAID = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=6,
)


@given(kind=KINDS, said=SAID)
def test_whatever_was_said_the_reply_keeps_to_the_schema(kind: dict[str, Any], said: object) -> None:
    fitted(said, kind)
    fitted({"field": said}, kind)
