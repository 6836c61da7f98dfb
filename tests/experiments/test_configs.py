"""Every committed ablation can be run as its first line says, and asks for what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.optimizer.config import load_config
from mnemotune.optimizer.search.ablation import Run, load_ablation, runs_of

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(ROOT.glob("experiments/*/*.yaml"))
ABLATIONS = [file for file in FILES if "\nvariants:" in file.read_text(encoding="utf-8")]
CONFIGS = [file for file in FILES if "\nsplits:" in file.read_text(encoding="utf-8")]


def runs(file: Path, out: Path) -> dict[str, Run]:
    """Return the run under the first seed of each variant."""
    found = runs_of(load_ablation(file), beside=file.parent, out=out)
    return {run.variant: run for run in reversed(found)}


def changes(file: Path) -> dict[str, set[str]]:
    return {name: set(changed) for name, changed in load_ablation(file).variants.items()}


@pytest.mark.parametrize("file", ABLATIONS, ids=lambda file: file.stem)
def test_an_ablation_can_be_run_by_the_command_in_its_first_line(file: Path, tmp_path: Path) -> None:
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# mnemotune ablate {file.relative_to(ROOT)}"
    assert runs(file, tmp_path)


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_a_config_can_be_run_by_the_command_in_its_first_line(file: Path) -> None:
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith(f"# mnemotune evolve {file.relative_to(ROOT)}")
    load_config(file)


def test_each_part_of_the_search_is_left_out_alone() -> None:
    parts = changes(ROOT / "experiments" / "self_evolution" / "parts.yaml")
    assert parts.pop("everything") == set()
    assert all(len(changed) == 1 for changed in parts.values())
