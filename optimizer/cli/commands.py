"""The commands by name; each is imported when it is called, so that a help text comes at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "evolve": ("evolve.evolve_command", "Evolve a memory policy, and score it on users that the search never saw."),
    "estimate": ("estimate.estimate_command", "Say what `evolve` will spend, before it spends anything."),
    "ablate": (
        "ablate.ablate_command",
        "Search with variants of a config, each under several seeds, and compare what they find on the same sealed "
        "users.",
    ),
    "evaluate": (
        "evaluate.evaluate_command",
        "Score a memory policy: accuracy, memory score, where memory fails, calls and tokens.",
    ),
    "ranks": ("ranks.ranks_command", "Rank policies by their own talks, and by the same recorded talks for all."),
    "runs": ("runs.runs_command", "List runs: how far each came, what its evolved policy scores, what it spent."),
    "show": (
        "runs.show_command",
        "Show a run's sealed test and trials, or one trial with its policy beside its parent's.",
    ),
    "compare": (
        "runs.compare_command",
        "Compare the evolved policies of runs, paired over the groups that their sealed tests share.",
    ),
    "export": (
        "runs.export_command",
        "Export a run: its best policy (yaml), its result (json), its frames (parquet), or its view in MLflow "
        "(mlflow).",
    ),
    "report": (
        "view.report_command",
        "Write a run's report again and bring MLflow up to date, from the run's study alone.",
    ),
    "ui": ("view.ui_command", "Serve MLflow's pages on the runs, and say where the newest study's charts are."),
    "results": ("results.results_command", "Show the scores of AMemGym's own runs, worked out as its paper does."),
    "serve": (
        "serve.serve_command",
        "Serve the embedded model as OpenAI's API does: chat completions, embeddings, models, health.",
    ),
    "data": ("data.app", "Scenarios: generate and check them."),
    "memrm": (
        "memrm.app.app",
        "A reward model of memory writes: collect what it learns from, train it, score with it.",
    ),
}
"""Where each command is, and the first line of its help."""
PANELS = {
    "Search": ("evolve", "estimate", "ablate"),
    "Look at runs": ("runs", "show", "compare", "report", "ui", "export"),
    "Score policies": ("evaluate", "ranks", "results"),
    "Data and models": ("data", "memrm", "serve"),
}
"""The parts of the list, and which commands stand in each."""


class Commands(TyperGroup):
    """A group that lists its commands without importing them."""

    def __init__(self, **attributes: Any) -> None:
        """Take what Typer's groups take; the commands are those of ``COMMANDS``."""
        panels = {name: panel for panel, names in PANELS.items() for name in names}
        listed = {
            name: TyperCommand(name=name, help=COMMANDS[name][1], rich_help_panel=panel)
            for name, panel in (panels | dict.fromkeys(COMMANDS.keys() - panels.keys())).items()
        }
        super().__init__(**{**attributes, "commands": listed})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that is called."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else command_named(name), rest


def command_named(name: str) -> Any:
    """Return a command, or a group of commands, as Typer runs it."""
    module, attribute = COMMANDS[name][0].rsplit(".", 1)
    part = getattr(import_module(f".{module}", __package__), attribute)
    if isinstance(part, typer.Typer):
        return typer.main.get_command(part)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(part)
    return typer.main.get_command(alone)
