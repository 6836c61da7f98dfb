"""The table of knobs, and what is read off it.

1. Each row stands below the row that its condition names; rows that share a path never have an effect together.
2. A point and what a policy at it says are made from each other without loss.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mnemotune.policies import load_policy, presets
from mnemotune.policies.knob import Choices, Range
from mnemotune.policies.policy import MemoryPolicy, Prompts, Read, Store, Write, WriteMode
from mnemotune.policies.prompts import Templates
from mnemotune.policies.space import (
    BUILTIN,
    KNOBS,
    NATIVE,
    OF_MEMORIES,
    Space,
    at_bounds,
    effective,
    flat,
    markdown_table,
    nested,
)

DOCS = Path(__file__).parents[2] / "docs" / "space.md"
NAMED = {knob.name: knob for knob in KNOBS}
SPACE = Space()


def test_conditions_name_rows_above_and_values_that_these_can_have_invariant_1() -> None:
    assert len(NAMED) == len(KNOBS)
    for row, knob in enumerate(KNOBS):
        for when in knob.when.parts if knob.when else ():
            (parent,) = (other for other in KNOBS[:row] if other.name == when.knob)
            assert isinstance(parent.domain, Choices)
            assert all(map(parent.domain.allows, when.values))
            assert len(when.values) < len(parent.domain.limits + parent.domain.named) or parent.domain.registered


@pytest.mark.parametrize("name", presets())
def test_rows_of_one_path_never_have_an_effect_together_invariant_1(name: str) -> None:
    paths = [NAMED[name].path for name in effective(load_policy(name).values, KNOBS)]
    assert len(set(paths)) == len(paths)


def test_the_table_has_the_choices_and_the_defaults_of_a_policys_fields() -> None:
    fields = {
        "mode": get_args(WriteMode),
        "store": get_args(Store),
        "roles": get_args(Write.model_fields["roles"].annotation),
        "order": get_args(Read.model_fields["order"].annotation),
    }
    choices = {k.name: (*k.domain.limits, *k.domain.named) for k in KNOBS if isinstance(k.domain, Choices)}
    assert choices == {"none.window": ("all", "last"), "backend": (BUILTIN, *NATIVE), **fields}
    native = MemoryPolicy(write=Write(mode="none"))
    for knob in KNOBS:
        if knob.name not in ("mode", "backend") and not knob.slot:
            assert native.values[knob.path] == knob.default, knob.name


def test_every_text_of_a_policy_has_a_row_that_says_what_it_mends() -> None:
    rows = [knob for knob in KNOBS if knob.slot]
    assert {knob.slot for knob in rows} == Prompts.model_fields.keys() - {"info_types"}
    assert all(knob.mends and knob.name in Templates.slots() for knob in rows)


def test_the_table_in_the_docs_is_this_one() -> None:
    assert markdown_table((*KNOBS, *OF_MEMORIES.values())) in DOCS.read_text(encoding="utf-8")


def tables(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.text("abc", min_size=1), values, min_size=1)


@given(given=tables(st.recursive(st.integers() | st.none(), tables, max_leaves=8)))
def test_values_by_path_are_the_nested_ones_again(given: dict[str, Any]) -> None:
    assert nested(flat(given)) == given


# Limits


def test_limits_make_the_space_that_they_come_from() -> None:
    narrow = Space.within({"modes": ["facts"], "windows": ["last"], "top_k": [3, 9]})
    assert Space.within(narrow.limits) == narrow
    assert narrow.limits == SPACE.limits | {"modes": ("facts",), "windows": ("last",), "top_k": (3, 9)}
    assert Space.within({}) == SPACE == Space.within(SPACE)


def test_knobs_of_one_key_are_limited_together() -> None:
    space = Space.within({"buffer_size": [4, 8]})
    assert [(k.name, d.limits) for k, d in space.searched if k.limited_by == "buffer_size"] == [
        ("none.buffer_size", (4, 8)),
        ("buffer_size", (4, 8)),
    ]


def test_a_narrowed_choice_leaves_the_others_outside() -> None:
    awe = load_policy("awe")
    assert Space.within({"roles": ["both"]}).point_of(awe) == SPACE.point_of(awe)
    assert Space.within({"roles": ["user"]}).point_of(awe) is None


# Bounds


def facts(**numbers: Any) -> MemoryPolicy:
    given = {"update_every": 4, "buffer_size": 4, "store": "external", "top_k": 30} | numbers
    return MemoryPolicy.model_validate({"write": {"mode": "facts"}} | given)


@pytest.mark.parametrize(
    ("numbers", "limits", "found"),
    [
        ({}, {}, {}),
        ({"buffer_size": 32}, {}, {"buffer_size": 32}),
        ({"update_every": 16, "top_k": 2}, {}, {"update_every": 16, "top_k": 2}),
        ({"update_every": 2, "buffer_size": 0}, {}, {}),
        ({"top_k": 1}, {"top_k": [1, 60]}, {}),
        ({"buffer_size": 4}, {"buffer_size": [4, 9]}, {"buffer_size": 4}),
        ({"buffer_size": 4}, {"buffer_size": [4, 4]}, {}),
        ({"buffer_size": 40}, {}, {}),
    ],
)
def test_a_number_at_a_bound_with_more_beyond_it_is_named_by_its_key(
    numbers: dict[str, Any], limits: dict[str, Any], found: dict[str, int]
) -> None:
    assert at_bounds(facts(**numbers), Space.within(limits)) == found


def test_a_window_has_a_bound_too_and_what_has_no_effect_has_none() -> None:
    assert at_bounds(MemoryPolicy(write=Write(mode="none"), update_every=2, buffer_size=32), SPACE) == {
        "buffer_size": 32
    }
    assert at_bounds(load_policy("native"), SPACE) == {}
    assert at_bounds(facts(store="context", top_k=None), SPACE) == {}


@pytest.mark.parametrize("key", ["diversity", "recency", "buffer_share"])
def test_no_percentage_is_searched_beyond_a_hundred(key: str) -> None:
    assert Space.within({key: (0, 100)}).limits[key] == (0, 100)
    with pytest.raises(ValidationError, match=rf"{key}\.1\n +Input should be less than or equal to 100"):
        Space.within({key: (0, 101)})


def test_a_linear_range_has_even_steps_and_needs_no_shift() -> None:
    share = Range((0, 100), least=0, most=100, log=False)
    assert [share.coordinates(value) for value in (0, 25, 100, None)] == [[0], [0.25], [1], [0.5]]
    assert (share.shift, share.open_limits) == (0, set())
