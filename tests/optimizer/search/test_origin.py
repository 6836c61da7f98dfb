"""Which mnemotune made a run."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from mnemotune.optimizer.search import origin
from mnemotune.optimizer.search.origin import Origin, note_origin, origins_of, this_origin
from mnemotune.optimizer.study import Study


@pytest.fixture
def study() -> Study:
    return Study(None, name="evolution")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    def git(*arguments: str) -> None:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "file").write_text("one", encoding="utf-8")
    git("add", "file")
    git("commit", "-qm", "first")
    git("tag", "v1")
    return tmp_path


def test_a_run_says_by_which_version_it_was_made(study: Study) -> None:
    note_origin(study)
    (made,) = origins_of(study)
    assert made == this_origin()
    assert made.version == version("mnemotune")


def test_a_study_from_before_says_nothing(study: Study) -> None:
    assert origins_of(study) == []


def test_going_on_with_another_version_is_noted_and_with_the_same_is_not(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_origin(study)
    note_origin(study)
    later = Origin("99.0", None)
    monkeypatch.setattr(origin, "this_origin", lambda: later)
    note_origin(study)
    assert origins_of(study) == [this_origin(), later]


def test_a_checkout_says_its_commit_and_whether_files_were_changed(checkout: Path) -> None:
    commit = origin._commit_of(checkout)
    assert commit is not None
    assert len(commit) == 40
    assert str(Origin("1.0", commit)) == f"mnemotune 1.0, commit {commit}"
    (checkout / "file").write_text("two", encoding="utf-8")
    changed = Origin("1.0", origin._commit_of(checkout))
    assert str(changed) == f"mnemotune 1.0, commit {commit} with changes that are not committed"


def test_what_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert origin._commit_of(tmp_path) is None
    assert str(Origin("1.0", None)) == "mnemotune 1.0"
