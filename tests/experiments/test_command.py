"""Experiments as commands: what cannot be done is said on one line, as on the product's own command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
TABLE = [sys.executable, "-m", "mnemotune.experiments.memgym.table"]


def test_an_experiment_that_needs_an_engine_of_containers_says_so_on_one_line(tmp_path: Path) -> None:
    nobody = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/nobody"}
    command = [*TABLE, str(tmp_path / "out.json"), "swe=generated:1@3"]
    ended = subprocess.run(command, env=nobody, capture_output=True, text=True, check=False)
    assert ended.returncode == 75
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "no engine of containers answers" in ended.stderr
    assert not (tmp_path / "out.json").exists()


def test_an_unknown_option_is_named_with_the_way_to_help(tmp_path: Path) -> None:
    ended = subprocess.run([*TABLE, str(tmp_path), "--nothing"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "--help" in ended.stderr


def test_every_experiment_is_a_command_of_the_same_kind() -> None:
    """Else `--help` is data, or runs it; what the reference's python runs has no typer."""
    texts = {file.name: file.read_text(encoding="utf-8") for file in EXPERIMENTS.rglob("*.py")}
    others = {name for name, text in texts.items() if "__main__" in text and "run(main)" not in text}
    assert others == {"child.py", "in_reference.py", "evolution_in_reference.py"}
    assert {name for name, text in texts.items() if "sys.argv" in text} == others
