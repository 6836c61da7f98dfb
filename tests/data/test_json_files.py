"""Files that hold JSON: whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.data.json_files import read_json, write_json


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
