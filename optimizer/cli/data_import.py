"""``mnemotune data import``: bring conversations of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from . import options
from .output import print_json

FORMS = ("chat", "locomo", "longmemeval")
MOST_TELLINGS = 10
"""Broken lines that are told one by one; ``--json`` has all of them."""


def import_command(
    file: Annotated[Path, typer.Argument(help="The file to read: .jsonl, .json or .parquet.")],
    form: Annotated[
        str, typer.Option("--from", help="What it is: `chat` (logs and exports), `locomo` or `longmemeval`.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The file to write, which the track `conversations` reads.")],
    questions: Annotated[
        Path | None, typer.Option("--questions", help="With chat: a file of questions, one a line.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="With chat: what has a memory of its own, `user` or `conversation`.")
    ] = "user",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first broken line.")] = False,
    as_json: options.Json = False,
) -> None:
    """Bring your own conversations: chat logs with questions on them, or a benchmark's file.

    A broken line is left out and told, unless --strict.

    Example: mnemotune data import --from chat chat.jsonl --questions questions.jsonl --out conversations.jsonl
    """
    from ...data.conversations.importing import Import, import_benchmark, import_chat
    from ...data.conversations.omissions import Omissions
    from ..views.table import say

    _check(file, form, by, questions)
    console, coming = Console(stderr=True), Import(out, Omissions(strict=strict))
    if questions is not None:
        import_chat(file, questions, coming, by="conversation" if by == "conversation" else "user")
    else:
        import_benchmark("locomo" if form == "locomo" else "longmemeval", file, coming)
    told = list(coming.omissions.lines)
    say(console, *told[:MOST_TELLINGS], style="yellow")
    if len(told) > MOST_TELLINGS:
        say(console, f"and {len(told) - MOST_TELLINGS:,} more; --json lists them all", style="yellow")
    say(console, *_summary(coming.as_json()))
    if as_json:
        print_json(coming.as_json())


def _check(file: Path, form: str, by: str, questions: Path | None) -> None:
    """Raise BadParameter for what does not go together."""
    if form not in FORMS:
        raise typer.BadParameter(f"{form} is none of {', '.join(FORMS)}", param_hint="--from")
    if by not in ("user", "conversation"):
        raise typer.BadParameter(f"{by} is neither user nor conversation", param_hint="--by")
    if form != "chat" and (questions is not None or by != "user"):
        raise typer.BadParameter(f"{form} has questions and groups of its own", param_hint="--questions, --by")
    if form == "chat" and questions is None:
        raise typer.BadParameter(
            "name a file of questions: without any, nothing can be scored", param_hint="--questions"
        )
    for path in (file, *([questions] if questions is not None else [])):
        if not path.is_file():
            raise typer.BadParameter(f"{path}: no such file")


def _summary(values: dict[str, Any]) -> list[str]:
    lines = [
        f"{values['messages']:,} messages in {values['sessions']:,} sessions of {values['groups']:,} users, "
        f"{values['questions']:,} questions, written to {values['out']}"
    ]
    if values["left_out"]:
        lines.append(f"{len(values['left_out']):,} broken lines were left out, and nothing else with them")
    if values["without_questions"]:
        lines.append(f"{values['without_questions']:,} users of whom nothing is asked are not in the file")
    if values["groups"] == 1:
        lines.append("one user cannot be split: --by conversation gives each conversation a memory of its own")
    return lines
