"""``mnemotune memrm``: the commands of the reward model."""

from __future__ import annotations

import typer

from . import collect, evaluate, rows, train

app = typer.Typer(name="memrm", no_args_is_help=True, add_completion=False)
app.command("collect")(collect.collect_command)
app.command("train")(train.train_command)
app.command("score")(rows.score_command)
app.command("eval")(evaluate.eval_command)
app.command("export")(rows.export_command)
