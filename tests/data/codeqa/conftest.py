"""A small source tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from code_trees import write_tree
from mnemotune.data.codeqa.tree import SourceTree


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def tree(folder: Path) -> SourceTree:
    return SourceTree.read(folder, name="small")
