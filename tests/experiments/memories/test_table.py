"""The table of memories says of a package that is not there how to bring it, and scores the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnemotune.experiments.memories.table import PACKAGES, main, policies


def test_the_presets_stand_beside_the_packages() -> None:
    assert {policy.backend for policy in policies().values()} == {None, *PACKAGES}
    assert len({policy.key for policy in policies().values()}) == len(policies())


def test_a_package_that_is_not_there_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MNEMOTUNE_MEM0AI_PYTHON", raising=False)
    main(tmp_path / "table.json", ["mem0ai"], data="generated:1@555")
    assert "mem0ai is left out: backend: mem0ai runs in an environment of its own" in capsys.readouterr().out
    assert json.loads((tmp_path / "table.json").read_text(encoding="utf-8")).keys() == {"rag"}
