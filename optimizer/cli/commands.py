"""The commands by name; each is imported when it is called, so that a help text comes at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Command(NamedTuple):
    """What the list says of a command, and where it is."""

    panel: str
    """The part of the list that it stands in."""
    place: str
    """Its module and the name in it, below this folder."""
    about: str
    """The first line of its help."""


COMMANDS = {
    "evolve": Command(
        "Search", "evolve.evolve_command", "Evolve a memory policy, and score it on users that the search never saw."
    ),
    "estimate": Command(
        "Search", "estimate.estimate_command", "Say what `evolve` will spend, before it spends anything."
    ),
    "ablate": Command(
        "Search",
        "ablate.ablate_command",
        "Search with variants of a config, each under several seeds, and compare what they find on the same sealed "
        "users.",
    ),
    "runs": Command(
        "Look at runs",
        "runs.runs_command",
        "List runs: how far each came, what its evolved policy scores, what it spent.",
    ),
    "show": Command(
        "Look at runs",
        "runs.show_command",
        "Show a run's sealed test and trials, or one trial with its policy beside its parent's.",
    ),
    "compare": Command(
        "Look at runs",
        "runs.compare_command",
        "Compare the evolved policies of runs, paired over the groups that their sealed tests share.",
    ),
    "report": Command(
        "Look at runs",
        "view.report_command",
        "Write a run's report again and bring MLflow up to date, from the run's study alone.",
    ),
    "ui": Command(
        "Look at runs",
        "view.ui_command",
        "Serve MLflow's pages on the runs, and say where the newest study's charts are.",
    ),
    "export": Command(
        "Look at runs",
        "runs.export_command",
        "Export a run: policy (yaml), result (json), frames (parquet), view in MLflow, settings of mem0 or langmem.",
    ),
    "evaluate": Command(
        "Score policies",
        "evaluate.evaluate_command",
        "Score a memory policy: accuracy, memory score, where memory fails, calls and tokens.",
    ),
    "ranks": Command(
        "Score policies",
        "ranks.ranks_command",
        "Rank policies by their own talks, and by the same recorded talks for all.",
    ),
    "results": Command(
        "Score policies",
        "results.results_command",
        "Show the scores of AMemGym's own runs, worked out as its paper does.",
    ),
    "data": Command("Data and models", "data.app", "Scenarios: generate and check them."),
    "memrm": Command(
        "Data and models",
        "memrm.app.app",
        "A reward model of memory writes: collect what it learns from, train it, score with it.",
    ),
    "mcp": Command(
        "Data and models",
        "mcp.mcp_command",
        "Serve a user's memory over MCP on standard input and output: remember, recall, forget.",
    ),
    "forget": Command(
        "Data and models",
        "forget.forget_command",
        "Forget a fact that a user told: in the memories of a deployment, and in what runs keep of the user's talks.",
    ),
    "serve": Command(
        "Data and models",
        "serve.serve_command",
        "Serve the embedded model as OpenAI's API does; with --policy, a memory in front of another endpoint.",
    ),
}
"""By name, in the order of the list; a panel stands where its first command does."""


class Commands(TyperGroup):
    """A group that lists its commands without importing them."""

    def __init__(self, **attributes: Any) -> None:
        """Take what Typer's groups take; the commands are those of ``COMMANDS``."""
        listed = {
            name: TyperCommand(name=name, help=command.about, rich_help_panel=command.panel)
            for name, command in COMMANDS.items()
        }
        super().__init__(**{**attributes, "commands": listed})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that is called."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else command_named(name), rest


def command_named(name: str) -> Any:
    """Return a command, or a group of commands, as Typer runs it."""
    module, attribute = COMMANDS[name].place.rsplit(".", 1)
    part = getattr(import_module(f".{module}", __package__), attribute)
    if isinstance(part, typer.Typer):
        return typer.main.get_command(part)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(part)
    return typer.main.get_command(alone)
