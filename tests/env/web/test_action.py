"""An action is the same as JSON, as a line and as a tool's arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.web.action import ACTIONS, Action

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda text: " ".join(text.split()))
TARGETS = st.one_of(
    st.just(""),
    st.integers(1, 9999).map("[{}]".format),
    st.tuples(st.sampled_from(["button", "link", "textbox"]), NAMES).map(lambda pair: f'{pair[0]} "{pair[1]}"'),
)


@given(st.sampled_from(ACTIONS), TARGETS, st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_an_action_is_read_as_it_was_written(name: str, target: str, value: str) -> None:
    action = Action.of(name, {"target": target, "value": value})
    assert Action.read(action.as_json) == action
    assert Action.read(action.line) == action


@pytest.mark.parametrize(
    ("line", "number", "role_and_name"),
    [
        ("click [12]", 12, ("[12]", "")),
        ('click button "Save it"', None, ("button", "Save it")),
        ("click button Save it", None, ("button", "Save it")),
        ('type textbox "He said "no"": "x"', None, ("textbox", 'He said "no"')),
        ('click button ""', None, ("button", "")),
        ('click button "  a   b "', None, ("button", "a b")),
    ],
)
def test_a_target_is_a_number_or_a_role_and_a_name(line: str, number: int | None, role_and_name: object) -> None:
    action = Action.read(line)
    assert (action.number, action.role_and_name) == (number, role_and_name)


def test_an_argument_that_is_null_or_a_number_is_none_or_its_digits() -> None:
    assert Action.of("key", {"target": None, "value": 0}) == Action("key", "", "0")


@pytest.mark.parametrize("line", ["", "fly", "fly away", "Click button", '{"action": "fly"}'])
def test_what_is_no_action_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no action"):
        Action.read(line)
