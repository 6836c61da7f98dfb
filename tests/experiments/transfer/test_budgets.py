"""Scores against the context budget: a table, a picture and JSON of the same evaluations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnemotune.experiments.transfer import budgets
from people import write_people


def test_each_policy_is_scored_within_each_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(budgets, "BUDGETS", (60, None))
    people = write_people(tmp_path, users=3, periods=2, questions=3)
    budgets.main(tmp_path / "out", ["mine=rag"], data=str(people))
    rows = json.loads((tmp_path / "out" / "front.json").read_text(encoding="utf-8"))
    names = ["window", "rag", "awe", "awi", "mine"]
    assert [(row["context_tokens"], row["policy"]) for row in rows] == [(b, n) for b in (60, None) for n in names]
    scores = {(row["policy"], row["context_tokens"]): row["score"]["memory_score"] for row in rows}
    assert scores["mine", 60] == scores["rag", 60]
    assert scores["window", 60] < scores["window", None], "three messages do not fit into 60 tokens"
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out" / "front.md").read_text(encoding="utf-8")
    assert printed.splitlines()[0] == "| policy | 60 | no limit |"
    assert len(printed.splitlines()) == 2 + len(names)
    drawn = (tmp_path / "out" / "front.svg").read_text(encoding="utf-8")
    assert drawn.count('<g id="line2d_') > len(names)
