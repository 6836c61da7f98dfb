"""``mnemotune memrm score`` and ``mnemotune memrm export``: recorded writes, scored or for MemGym's reward model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from ....env.memrm.rows.row import Row


Rows = Annotated[Path, typer.Argument(help="Writes, JSON lines as `mnemotune memrm collect` makes them.")]


def score_command(
    rows: Rows,
    model: Annotated[str, typer.Option("--model", help="`tiny`, or the folder of a checkpoint.")] = "tiny",
    out: Annotated[Path | None, typer.Option("--out", help="A file instead of standard output.")] = None,
    torch: Annotated[bool, typer.Option("--torch", help="Run with torch though an ONNX graph is there.")] = False,
) -> None:
    """Score writes: one JSON line each with task, policy, stage, write and p_safe, null where it is not scored.

    Example: mnemotune memrm score rows.jsonl --out scores.jsonl
    """
    from ....data.whole_files import write_whole
    from ....env.memrm.model.blend import load_reward
    from ....env.memrm.model.scoring import MemRM
    from ....env.memrm.rows.row import read_rows
    from ...views.table import say

    reward, given = load_reward(model, torch=torch), list(read_rows(rows))
    scores = reward.score([row.event for row in given]).tolist()
    text = "".join(_line(row, score) for row, score in zip(given, scores, strict=True))
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text)
    unscored = sum(map(math.isnan, scores))
    if unscored:
        beyond = f"beyond the window of {reward.card.window:,} tokens, " if isinstance(reward, MemRM) else ""
        why = f"{beyond}empty, or no text"
        say(Console(stderr=True), f"{unscored:,} of {len(given):,} writes are not scored: {why}", style="yellow")


def _line(row: Row, score: float) -> str:
    place = {"task": row.task, "policy": row.policy, "stage": row.stage, "write": row.write}
    return json.dumps({**place, "p_safe": None if math.isnan(score) else score}, ensure_ascii=False) + "\n"


def export_command(rows: Rows, out: Annotated[Path, typer.Option("--out", help="The JSONL file to write.")]) -> None:
    """Write rows in the format of MemGym's training set: one prompt for the whole write, without actions.

    Example: mnemotune memrm export rows.jsonl --out memgym.jsonl
    """
    from ....env.memrm.model.memgym import write_memgym
    from ....env.memrm.rows.row import read_rows
    from ...views.table import counted, say

    left_out = write_memgym(out, read_rows(rows))
    if left_out:
        say(Console(stderr=True), f"{counted(left_out, 'write')} left out: empty, or no text", style="yellow")
