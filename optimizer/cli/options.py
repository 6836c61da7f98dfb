"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Set = Annotated[list[str] | None, typer.Option("--set", help="key=value, dots in the key.")]
Data = Annotated[
    str | None,
    typer.Option("--data", help="A file, a folder, a bundled set, or generated:N@SEED; else the track's usual data."),
]
Config = Annotated[Path | None, typer.Option("--config", help="A config for endpoint, rounds, templates.")]
Users = Annotated[str | None, typer.Option("--users", help="Only these groups: ID,ID,...")]
Track = Annotated[
    str | None,
    typer.Option(
        "--track", help="`dialogue`, `codeqa`, `conversations`, `research`, `swe`, `tools`, `web`, or a package's."
    ),
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="`embedded[:READER]`, `openai:NAME`, or what a package registers."),
]
Embedder = Annotated[
    str | None,
    typer.Option("--embedder", help="Searches memories: `lexical:DIMENSIONS`, `openai:NAME` or `fastembed:NAME`."),
]
ContextTokens = Annotated[
    int | None, typer.Option("--context-tokens", min=1, help="Most tokens of memory before a call; without, no limit.")
]
Window = Annotated[
    bool, typer.Option(help="Also score the newest messages that fit, nothing written, to compare with.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
DEFAULT_STORE = Path("memories.db")
STORE = typer.Option("--store", help=f"The SQLite file of memories; {DEFAULT_STORE} by default.")
WRITER = typer.Option("--model", help="Writes memories; else the one that the policy was searched with.")
SHOWN = typer.Option("--context-tokens", min=1, help="Most tokens of memory in a call; else those of the search.")
