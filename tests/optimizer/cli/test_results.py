"""``mnemotune results``: the scores in AMemGym's result files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Cli = Callable[..., Any]


@pytest.fixture
def exported(cli: Cli, people: Path, tmp_path: Path) -> Path:
    """Two runs on eight users, exported as AMemGym's files."""
    compat = tmp_path / "compat.yaml"
    compat.write_text(yaml.safe_dump({"compat": "amemgym"}), encoding="utf-8")
    for policy in ("native", "awi_question_only"):
        where = ("--data", people, "--config", compat, "--export", tmp_path / "files")
        cli("evaluate", policy, *where, "--json").succeeded()
    return tmp_path / "files"


def test_it_shows_the_scores_that_the_runs_had(cli: Cli, people: Path, exported: Path, tmp_path: Path) -> None:
    told = cli("results", exported, "--data", people, "--json").succeeded().json
    assert list(told["runs"]) == ["awi_question_only", "native"]
    for name, row in told["runs"].items():
        where = ("--data", people, "--config", tmp_path / "compat.yaml", "--json")
        again = cli("evaluate", name, *where).succeeded().json
        for each in (row, again):
            del each["stages"]["evidence"]  # AMemGym's files say nothing of it
        assert {key: row[key] for key in ("key", "groups", "by_group", "extras", "shares", "stages")} == {
            key: again[key] for key in ("key", "groups", "by_group", "extras", "shares", "stages")
        }


def test_the_table_has_a_line_for_each_run(cli: Cli, people: Path, exported: Path) -> None:
    done = cli("results", exported, "--data", people).succeeded()
    assert "8 users, scored as AMemGym does" in done.out
    lines = [line for line in done.out.splitlines() if line.strip().startswith(("native", "awi_question_only"))]
    assert len(lines) == 2
    assert "/turn" not in done.out, "what it took is not in the files"
    assert done.err == ""


def test_what_is_missing_is_told(cli: Cli, people: Path, exported: Path) -> None:
    (exported / "embedded" / "utilization_results.json").unlink()
    (exported / "native" / "user-1-003" / "diagnosis_results.json").unlink()
    for file in (exported / "native" / "user-1-005").glob("*.json"):
        file.unlink()
    done = cli("results", exported, "--data", people).succeeded()
    assert "native: 1 of 8 users have no results" in done.err
    assert "so no memory score" in done.err
    assert "native: some users lack diagnosis_results.json" in done.err


def test_a_folder_without_runs_is_refused(cli: Cli, people: Path, tmp_path: Path) -> None:
    told = cli("results", tmp_path, "--data", people).refused()
    assert "holds no results of AMemGym's" in told


def test_results_on_other_data_are_refused_with_the_user(cli: Cli, people: Path, exported: Path) -> None:
    (exported / "native" / "user-1-000" / "overall_results.json").write_text("[[]]", encoding="utf-8")
    assert "does not suit user user-1-000's scenario" in cli("results", exported, "--data", people).refused()
