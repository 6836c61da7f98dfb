"""``mnemotune memrm export``: rows for MemGym's reward model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ....env.memrm.model.memgym import write_memgym
from ....env.memrm.rows.row import read_rows


def export_command(
    rows: Annotated[Path, typer.Argument(help="Writes, JSON lines as `mnemotune memrm collect` makes them.")],
    out: Annotated[Path, typer.Option("--out", help="The JSONL file to write.")],
) -> None:
    """Write rows in the format of MemGym's training set: one prompt for the whole write, without actions."""
    write_memgym(out, read_rows(rows))
