"""The verifier: exactly what was wanted, and nothing else."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.task import TaskError
from mnemotune.data.web.verifier import changed, changes_text, state_hash, verify

BEFORE: dict[str, Any] = {"rows": [{"id": 1, "fee": ""}, {"id": 2, "fee": ""}], "log": [], "next": ["A", "B"]}
AFTER: dict[str, Any] = {"rows": [{"id": 1, "fee": "7"}, {"id": 2, "fee": ""}], "log": ["A"], "next": ["B"]}
CHANGES = changes_text(BEFORE, AFTER)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)
STATES = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


def test_the_changes_name_what_is_different_and_nothing_else() -> None:
    assert json.loads(CHANGES) == [
        {"at": ["rows", 0, "fee"], "is": "7"},
        {"at": ["log"], "is": ["A"]},
        {"at": ["next"], "is": ["B"]},
    ]


def test_a_state_with_the_changes_is_right_whatever_the_order_of_keys() -> None:
    after = dict(reversed(deepcopy(AFTER).items()))
    assert verify(CHANGES, BEFORE, after)[0]


def test_the_state_before_is_wrong() -> None:
    assert verify(CHANGES, BEFORE, BEFORE) == (False, "not as it was wanted: rows.0.fee, log, next")


def test_a_state_with_one_more_change_is_wrong() -> None:
    after = deepcopy(AFTER)
    after["rows"][1]["fee"] = "7"
    assert verify(CHANGES, BEFORE, after) == (False, "not as it was wanted: rows.1.fee")


@pytest.mark.parametrize("after", [None, [], {}, {"rows": []}, AFTER | {"more": None}, "state"])
def test_a_state_of_another_shape_is_wrong(after: Any) -> None:
    assert not verify(CHANGES, BEFORE, after)[0]


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ("1", 1), (None, False), ([], {})])
def test_values_of_another_kind_are_other_values(one: Any, other: Any) -> None:
    assert not verify(changes_text({"a": 5}, {"a": one}), {"a": 5}, {"a": other})[0]
    assert changes_text({"a": one}, {"a": other}) != "[]"


@pytest.mark.parametrize("changes", ["{", "7", "[7]", '[{"at": []}]', '[{"at": ["rows", 9, "fee"], "is": 1}]'])
def test_changes_that_do_not_fit_the_state_are_refused(changes: str) -> None:
    with pytest.raises(TaskError, match=r"verify: is no list of \{at, is\} that fits the state"):
        changed(BEFORE, changes)


@given(before=STATES, added=STATES)
def test_the_changes_between_two_states_make_one_of_the_other(before: dict[str, Any], added: dict[str, Any]) -> None:
    after = before | added
    assert state_hash(changed(before, changes_text(before, after))) == state_hash(after)
    assert verify(changes_text(before, after), before, after)[0]
    assert (state_hash(before) == state_hash(after)) == (changes_text(before, after) == "[]")
