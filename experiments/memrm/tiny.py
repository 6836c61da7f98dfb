"""Make the bundled checkpoint anew: collect writes, train on them, fit the forecast.

python -m mnemotune.experiments.memrm.tiny OUT

Takes an hour on two cores. What is finished in OUT is not done again; the checkpoint is OUT/tiny.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..command import run

RECIPE = Path(__file__).parents[2] / "configs" / "memrm" / "tiny.yaml"
COLLECTED = {
    "many": "--data generated:400@31337 --policies presets random:60 damaged:30 --each 3 --seed 7",
    "presets": "--data generated:200@41414 --policies presets --seed 1",
}
"""What rows are collected, by name: many policies, and more of those that people start from."""
APART = "--data generated:40@71717:b --policies presets random:60 damaged:30 --each 3 --seed 7"
"""Of users who say the same in other words: what weighs words and shape."""


def mnemotune(*arguments: str) -> None:
    """Run a command of mnemotune's; ends this program when it fails."""
    code = subprocess.call([sys.executable, "-m", "mnemotune", "memrm", *arguments])
    if code:
        raise SystemExit(code)


def main(out: Path) -> None:
    """Do what is missing."""
    files = {out / f"{name}.jsonl": settings for name, settings in COLLECTED.items()}
    apart = out / "apart.jsonl"
    for file, settings in (*files.items(), (apart, APART)):
        if not file.is_file():
            mnemotune("collect", *settings.split(), "--out", str(file))
    rows = [argument for file in files for argument in ("--rows", str(file))] + ["--apart", str(apart)]
    mnemotune("train", str(RECIPE), *rows, "--out", str(out / "tiny"), "--tracking", f"sqlite:///{out / 'mlflow.db'}")


if __name__ == "__main__":
    run(main)
