"""``mnemotune memrm``: a reward model of memory writes."""

from __future__ import annotations

import typer

from .collect import collect_command
from .evaluate import eval_command
from .export import export_command
from .score import score_command
from .train import train_command

app = typer.Typer(no_args_is_help=True)
app.command("collect")(collect_command)
app.command("train")(train_command)
app.command("score")(score_command)
app.command("eval")(eval_command)
app.command("export")(export_command)
