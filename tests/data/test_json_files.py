"""Files that hold JSON: whole, or not at all."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.json_files import each_row, read_json, write_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_json(tmp_path / "deep" / "a.json", {"name": "Zoë", "list": [1, None]})
    assert read_json(tmp_path / "deep" / "a.json") == {"name": "Zoë", "list": [1, None]}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.json"]


def test_a_value_that_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, 1)
    with pytest.raises(TypeError):
        write_json(path, object())
    assert read_json(path) == 1


@pytest.mark.parametrize("content", [b'{"cut', b"\xff\xfe", b""])
def test_a_file_that_is_not_whole_json_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    assert read_json(tmp_path / "a.json") is None
    assert read_json(tmp_path / "nowhere.json") is None


def test_a_file_that_cannot_take_its_place_is_named_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder") as failed:
        write_json(tmp_path / "folder", 1)
    assert failed.value.filename == str(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@given(st.lists(JSON, max_size=5), st.sampled_from([None, 1]), st.integers(1, 9))
def test_rows_are_those_of_the_list_however_little_is_read_at_once(rows: list[Any], indent: int, at_once: int) -> None:
    assert [*each_row(io.StringIO(json.dumps(rows, indent=indent) + "\n"), at_once=at_once)] == rows


@given(st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=3), min_size=1, max_size=5), st.integers(1, 9))
def test_objects_one_after_another_are_rows(rows: list[Any], at_once: int) -> None:
    assert [*each_row(io.StringIO("".join(f"{json.dumps(row)}\n" for row in rows)), at_once=at_once)] == rows


@pytest.mark.parametrize("value", [7, "ann", None, {"id": "ann"}])
def test_a_value_that_is_no_list_is_the_only_row(value: Any) -> None:
    assert [*each_row(io.StringIO(json.dumps(value)), at_once=1)] == [value]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("[1, 2", "row 1: neither a comma nor the end of the list follows"),
        ("[1, ]", "row 1: Expecting value"),
        ('[{"a": 1} {"a": 2}]', "row 0: neither"),
        ('[1, {"a"', "row 1: Expecting ':'"),
        ("[1] 2", "something follows the end"),
        ("{} x", "something follows the end"),
        ('{} {"a" 1}', "row 1: Expecting ':'"),
        ("{}, {}", "something follows the end"),
        ("1 {}", "something follows the end"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 1000])
def test_what_is_no_json_is_refused_with_the_row(text: str, problem: str, at_once: int) -> None:
    with pytest.raises(ValueError, match=problem):
        list(each_row(io.StringIO(text), at_once=at_once))


def test_the_rows_before_a_broken_one_are_there() -> None:
    rows = each_row(io.StringIO('[{"a": 1}, {"a": 2}, oops]'), at_once=4)
    assert [next(rows), next(rows)] == [{"a": 1}, {"a": 2}]
    with pytest.raises(ValueError, match="row 2"):
        next(rows)


@pytest.mark.parametrize("start", ["[{'a': 1}, ", '[{"a" 1}, ', "\ufeff[", f"[{'9' * 5000}, "])
def test_a_row_that_is_broken_is_refused_before_the_rest_is_read(start: str) -> None:
    file = io.StringIO(start + '{"a": 1}, ' * 10_000)
    with pytest.raises(ValueError, match=r"."):
        list(each_row(file, at_once=6000))
    assert file.tell() < 20_000


@pytest.mark.parametrize("number", ["1.5", "-0.25", "1e9", "2.5e-10"])
def test_a_number_that_is_read_in_two_parts_is_whole(number: str) -> None:
    for at_once in range(1, 12):
        assert [*each_row(io.StringIO(f"[{number}, {number}]"), at_once=at_once)] == [float(number)] * 2
