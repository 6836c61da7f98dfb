"""Malformed inputs: a share of the experiment's cases, and that it would see a command that ends otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mnemotune.experiments.reliability.malformed import Case, Ended, damage, faults, prepare, read_cases, state, tried

CASES = read_cases()
SHARE = 8
"""One case of so many runs here; the experiment runs all of them."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole files, which cases damage."""
    folder = tmp_path_factory.mktemp("whole")
    prepare(folder)
    return folder


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "MLFLOW_"))]:
        monkeypatch.delenv(name)


def test_there_are_more_than_the_cases_that_were_asked_for() -> None:
    assert len(CASES) >= 120
    assert len({(case.command, case.file, case.how, str(case.given)) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES[3::SHARE], ids=lambda case: case.name)
def test_a_malformed_input_is_one_line_and_nothing_is_written(case: Case, whole: Path, tmp_path: Path) -> None:
    ended, wrong = tried(case, whole, tmp_path / "case")
    assert not wrong, (wrong, ended)


def test_the_experiment_sees_what_must_not_be(tmp_path: Path) -> None:
    before = {"a": "1", "b": "2"}
    assert list(faults(Ended(1, "", "error: no\n"), before, before)) == []
    ended = Ended(0, "done\n", "first\nsecond\n")
    wrong = ["exit code 0", "2 lines", "output", "wrote b, c"]
    assert list(faults(ended, before, {"a": "1", "b": "3", "c": ""})) == wrong
    assert list(faults(Ended(1, "", "Traceback: x\n"), before, before)) == ["a traceback"]
    assert list(faults(Ended(1, "", "help\n"), before, before)) == ["no error"]


def test_a_case_changes_one_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"a": [1, 2]}, 3]', encoding="utf-8")
    damage(Case("", "x.json", "change", {"0.a.1": "no"}), tmp_path)
    assert (tmp_path / "x.json").read_text(encoding="utf-8") == '[{"a": [1, "no"]}, 3]\n'
    damage(Case("", "deep/y", "write", {"repeat": "[", "times": 3, "end": "]"}), tmp_path)
    assert sorted(state(tmp_path)) == ["deep", "deep/y", "x.json"]
    assert (tmp_path / "deep" / "y").read_text(encoding="utf-8") == "[[[]]]"
