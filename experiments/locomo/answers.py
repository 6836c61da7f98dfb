"""Answers about LoCoMo's conversations: policies side by side, and beside the best preset.

python -m mnemotune.experiments.locomo.answers POLICY.json ...

Each file is what `mnemotune evaluate POLICY --track conversations --data locomo.jsonl --json` has printed, and gives
its row the file's name. Figures are means over conversations of means over questions, with 95% intervals over
conversations; differences are paired by conversation, from the preset that is best by answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...data.task import TaskError
from ...env.summary import from_json_number
from ...optimizer.views.table import markdown_lines
from ..command import run
from .beside import ByConversation, cell, gain_lines

FIGURES = {"answers": "score", "F1": "f1", "exact": "exact", "evidence": "evidence"}
"""What is shown, by column, as the track names it."""


def figures_of(path: Path) -> dict[str, ByConversation]:
    """Return a policy's ``FIGURES`` by column. Raises TaskError where the file is no evaluation of conversations."""
    try:
        by_group = json.loads(path.read_text(encoding="utf-8"))["extras"]["by_group"]
        return {
            column: {group: from_json_number(value) for group, value in by_group[name].items()}
            for column, name in FIGURES.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        how = "write it with `mnemotune evaluate POLICY --track conversations --data FILE --json`"
        raise TaskError(f"{path}: is no evaluation of conversations ({type(error).__name__}: {error}); {how}") from None


def main(
    files: Annotated[list[Path], typer.Argument(help="What `evaluate --json` printed, a file for each policy.")],
) -> None:
    """Print the figures of each policy, and how far they are from the best preset's."""
    figures = {path.stem: figures_of(path) for path in files}
    rows = [(name, *(cell(by[column]) for column in FIGURES)) for name, by in figures.items()]
    table = markdown_lines(("policy", *FIGURES), rows)
    print("\n".join([*table, *gain_lines(figures, [*FIGURES], by="answers")]))


if __name__ == "__main__":
    run(main)
