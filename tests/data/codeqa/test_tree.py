"""A source tree is read whole, in excerpts that say where they stand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mnemotune.data.codeqa.task import tokens_of
from mnemotune.data.codeqa.tree import SourceTree
from mnemotune.data.task import TaskError


def test_excerpts_are_short_and_together_they_are_the_file(tree: SourceTree) -> None:
    for file in tree.files.values():
        bodies = [excerpt.text.split("\n", 1)[1] for excerpt in file.excerpts]
        assert "".join("".join(bodies).split()) == "".join(file.text.split())
        assert max(tokens_of(excerpt.text) for excerpt in file.excerpts) <= 200


def test_the_excerpt_of_a_fact_holds_its_value_below_a_line_that_says_where(tree: SourceTree) -> None:
    assert len(tree.facts) == 4 * 6 * 4
    for fact in tree.facts:
        excerpt = tree.excerpt_of(fact)
        assert excerpt is not None
        assert fact.value in excerpt.text
        assert excerpt.text.startswith(f"# {fact.file}, line ")


def test_an_excerpt_within_a_class_names_it(tmp_path: Path) -> None:
    body = "\n".join(f"        self.part_{i} = {i}" for i in range(200))
    (tmp_path / "a.py").write_text(f"class Box:\n    def fill(self):\n{body}\n", encoding="utf-8")
    excerpts = SourceTree.read(tmp_path, name="a").files["a.py"].excerpts
    assert excerpts[1].text.splitlines()[0].endswith(", in Box.fill")


def test_a_package_or_a_module_at_the_top_is_a_group(tmp_path: Path) -> None:
    for name in ("src/lib/one/a.py", "src/lib/one/deep/b.py", "src/lib/two.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("X = 1\n", encoding="utf-8")
    tree = SourceTree.read(tmp_path, name="src")
    assert [tree.group_of(file) for file in tree.files] == ["one", "one", "two"]


def test_tests_and_hidden_folders_are_left_out(tmp_path: Path) -> None:
    for name in ("a.py", "tests/b.py", ".git/c.py", "__pycache__/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("X = 1\n", encoding="utf-8")
    assert list(SourceTree.read(tmp_path, name="a").files) == ["a.py"]


def test_a_file_that_is_no_python_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("X = 1\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("def (:\n", encoding="utf-8")
    (tmp_path / "bytes.py").write_bytes(b"X = '\xff'\n")
    tree = SourceTree.read(tmp_path, name="a")
    assert list(tree.files) == ["a.py"]
    assert [name in line for name, line in zip(("broken.py", "bytes.py"), tree.unread, strict=True)] == [True, True]


def test_a_folder_without_python_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="holds no Python file"):
        SourceTree.read(tmp_path, name="none")


def test_columns_are_bytes_so_that_letters_beyond_ascii_move_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('NAME = "é"; SIZE = 4711\n', encoding="utf-8")
    tree = SourceTree.read(tmp_path, name="a")
    assert [fact.value for fact in tree.facts] == ['"é"', "4711"]
    assert all(tree.excerpt_of(fact) is not None for fact in tree.facts)


def test_ten_times_as_long_a_file_takes_about_ten_times_as_long(tmp_path: Path) -> None:
    def taken(constants: int) -> float:
        lines = [f"NAME_{number} = {number + 1000}" for number in range(constants)]
        (tmp_path / "a.py").write_text("\n".join(lines), encoding="utf-8")
        tree = SourceTree.read(tmp_path, name="a")
        began = time.process_time()
        assert all(fact.value in str(tree.excerpt_of(fact)) for fact in tree.facts)
        return time.process_time() - began

    assert taken(10_000) < 30 * max(taken(1_000), 0.01)
