"""The table of memories says of a package that is not there how to bring it, and scores the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.experiments.memories.table import main
from mnemotune.policies.memory.packages import process


def test_a_package_that_is_not_there_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MNEMOTUNE_MEM0AI_PYTHON", raising=False)
    monkeypatch.setattr(process, "has_extra", lambda package: False)
    main(tmp_path / "rows.jsonl", ["mem0ai"], data="generated:1@555")
    shown = capsys.readouterr().out
    assert "mem0ai is left out: backend: mem0ai is not installed" in shown
    assert "| rag |" in shown
    assert len((tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()) == 1
