"""YAML that people write, and what is said of what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.data.yaml_texts import parse_yaml, read_utf8


def test_a_text_is_read() -> None:
    assert parse_yaml("a: [1, true, x]") == {"a": [1, True, "x"]}


@pytest.mark.parametrize("text", ["a: [", "\0", "[" * 50_000, "2026-99-99", "a: &a [*a", "!!python/object:os.system x"])
def test_what_is_no_yaml_is_refused_on_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is not YAML: ") as caught:
        parse_yaml(text)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "x: {b: 1, a: 2, 'a': 3}", '{"x": [{"a": 1, "a": 2}]}'])
def test_a_key_that_stands_twice_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is not YAML: 'a' is there twice in .*line \d, column \d+"):
        parse_yaml(text)


def test_keys_that_are_merged_in_may_be_said_anew() -> None:
    text = "x: &x {a: 1}\ny: &y {<<: *x, a: 2}\nz: {<<: *y, a: 3}\nof other kinds: {1: a, '1': b}"
    assert parse_yaml(text) == {"x": {"a": 1}, "y": {"a": 2}, "z": {"a": 3}, "of other kinds": {1: "a", "1": "b"}}


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("Grüße".encode("latin-1"))
    with pytest.raises(ValueError, match=r"^is not UTF-8 text "):
        read_utf8(tmp_path / "latin")
