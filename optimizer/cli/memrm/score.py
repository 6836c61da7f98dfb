"""``mnemotune memrm score``: P(safe) for recorded writes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from ....env.memrm.model.scoring import load_memrm
from ....env.memrm.rows.row import Row, read_rows


def score_command(
    rows: Annotated[Path, typer.Argument(help="Writes, JSON lines as `mnemotune memrm collect` makes them.")],
    model: Annotated[str, typer.Option("--model", help="`tiny`, or the folder of a checkpoint.")] = "tiny",
    out: Annotated[Path | None, typer.Option("--out", help="A file instead of standard output.")] = None,
    torch: Annotated[bool, typer.Option("--torch", help="Run with torch though an ONNX graph is there.")] = False,
) -> None:
    """Score writes: one JSON line each with task, policy, stage, write and p_safe, null where it is not scored."""
    reward, given = load_memrm(model, torch=torch), list(read_rows(rows))
    scores = reward.score([row.event for row in given])
    lines = _lines(given, scores.tolist())
    if out is None:
        for line in lines:
            typer.echo(line)
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    unscored = int(np.isnan(scores).sum())
    if unscored:
        window = reward.card.window
        why = f"beyond the window of {window:,} tokens, empty, or no text"
        Console(stderr=True).print(f"{unscored:,} of {len(given):,} writes are not scored: {why}", style="yellow")


def _lines(rows: list[Row], scores: list[float]) -> Iterator[str]:
    for row, score in zip(rows, scores, strict=True):
        place = {"task": row.task, "policy": row.policy, "stage": row.stage, "write": row.write}
        yield json.dumps({**place, "p_safe": None if math.isnan(score) else score}, ensure_ascii=False)
