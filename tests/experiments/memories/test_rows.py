"""Rows are kept as they come, and what is there is not measured again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mnemotune.env import Summary
from mnemotune.experiments.memories import matrix, parity, rows
from mnemotune.experiments.memories.rows import NATIVE, Place, Rows, contenders, measured
from mnemotune.policies import load_policy
from mnemotune.policies.lm.ledger import Ledger
from mnemotune.policies.memory.packages import process
from mnemotune.policies.space import PACKAGES

PLACE = Place("dialogue", "generated:1@555", 1000)


def summary_of(key: str, **scores: float) -> Summary:
    values = {
        "policy": key,
        "key": key,
        "by_group": scores,
        "evidence_by_group": scores,
        "memory_score": 0.2,
        "interval": [0.1, 0.3],
        "spend": Ledger().as_json(),
    }
    return Summary.from_json(values)


def test_every_memory_is_a_policy_of_its_own() -> None:
    policies = contenders()
    assert {policies[name].backend for name in PACKAGES} == {*PACKAGES}
    assert all(policies[name].backend for name in NATIVE)
    assert len({policy.key for policy in policies.values()}) == len(policies)


def test_a_row_that_is_there_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, policies = tmp_path / "rows.jsonl", {"window": load_policy("window")}
    first, absent = measured(path, PLACE, policies)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1
    monkeypatch.delattr(rows, "scored")
    again, _ = measured(path, PLACE, policies)
    assert absent == []
    assert again == Rows(path).at(PLACE, policies)
    assert again["window"].by_group == first["window"].by_group
    assert Rows(path).at(replace(PLACE, tokens=999), policies) == {}


def test_a_package_that_is_not_there_has_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNEMOTUNE_A_MEM_PACKAGE_PYTHON", raising=False)
    monkeypatch.setattr(process, "has_extra", lambda package: False)
    found, (why,) = measured(tmp_path / "rows.jsonl", PLACE, {"a-mem-package": contenders()["a-mem-package"]})
    assert found == {}
    assert why.startswith("a-mem-package is left out: backend: a-mem-package is not installed")


def test_the_rows_that_ship_can_be_read() -> None:
    lines = [json.loads(line) for line in rows.ROWS.read_text(encoding="utf-8").splitlines()]
    assert {line["track"] for line in lines} <= matrix.SOURCES.keys() | {"conversations"}
    for line in lines:
        assert Summary.from_json(line["summary"]).groups > 0


def test_a_pair_is_compared_group_by_group() -> None:
    own, package = summary_of("own", a=0.5, b=0.7), summary_of("package", a=0.4, b=0.6)
    score, recall, lost = parity.rows(own, package)
    assert (score[0], recall[0]) == parity.FIGURES
    assert score[3] == "0.100 [0.100, 0.100]"
    assert lost[1:] == ["nan, nan, nan", "nan, nan, nan", ""]
    assert any("a-mem, a-mem-package" in line for line in parity.lines({"a-mem": own, "a-mem-package": package}))


def test_a_cell_says_what_is_surely_above_rag() -> None:
    rag = summary_of("rag", a=0.1, b=0.2, c=0.3)
    assert matrix.cell(summary_of("x", a=0.3, b=0.4, c=0.5), rag, "memory score").endswith("+")
    assert matrix.cell(summary_of("x", a=0.0, b=0.1, c=0.2), rag, "memory score").endswith("-")
    assert not matrix.cell(rag, rag, "memory score").endswith(("+", "-"))
    (_, _, row) = matrix.lines({PLACE: {"rag": rag}}, "memory score")
    assert row.startswith("| rag |")
