"""What tools give back, as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.tools.observation import lines_of, observed
from mnemotune.data.tools.world import Result

VALUES = st.recursive(
    st.integers() | st.text(max_size=400),
    lambda v: st.lists(v, max_size=9) | st.dictionaries(st.text(max_size=9), v, max_size=9),
)


@given(st.dictionaries(st.text(max_size=300), st.text(max_size=300)), VALUES)
def test_a_piece_begins_with_the_call_and_has_200_tokens_or_fewer(arguments: dict[str, str], value: object) -> None:
    pieces = observed("look", arguments, Result(value))
    assert pieces
    for piece in pieces:
        assert piece.startswith("look(")
        assert len(piece.encode("utf-8", "surrogatepass")) <= 800


def test_records_stand_on_a_line_each_after_what_they_are() -> None:
    value = {"id": 1, "name": "Ada", "orders": [{"id": 2, "parts": ["a", "b"]}, {"id": 3, "parts": []}]}
    assert list(lines_of(value)) == [
        '{"id": 1, "name": "Ada"}',
        'orders {"id": 2, "parts": ["a", "b"]}',
        'orders {"id": 3, "parts": []}',
    ]


def test_a_long_record_is_shown_part_by_part() -> None:
    value = {"id": 1, "variants": {name: {"colour": "x" * 100} for name in "abcd"}}
    assert list(lines_of(value))[:2] == ['{"id": 1}', 'variants a {"colour": "' + "x" * 100 + '"}']


def test_each_text_of_a_list_has_its_place() -> None:
    assert list(lines_of({"id": 1, "orders": ["a", "b"], "tags": ["x"]})) == [
        "orders place 1: a",
        "orders place 2: b",
        '{"id": 1, "tags": ["x"]}',
    ]
    assert list(lines_of(["a", "b"])) == ["result place 1: a", "result place 2: b"]


def test_what_goes_wrong_is_told() -> None:
    assert observed("look", {"at": "it"}, Result("there is no it", error=True)) == (
        'look({"at": "it"}) returned:\nError: there is no it',
    )


def test_nothing_is_told_as_such() -> None:
    assert observed("look", {}, Result([])) == ("look({}) returned:\n[]",)
    assert observed("look", {}, Result("")) == ("look({}) returned:\nnothing",)
