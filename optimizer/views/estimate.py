"""What a run will spend, as a table and a few sentences."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from ...policies.assistant import ContextUse
from ...policies.lm.providers import model_named
from ..config import Config
from ..models import notes
from ..search.estimate import CostEstimate
from .progress import clock_text
from .table import count, plain_table, print_table, say, usd_cell


def show_estimate(spending: CostEstimate, config: Config, console: Console) -> None:
    """Print the table of an estimate, and what it says of the run of a priced config."""
    values = spending.as_json()
    tokens, total = values["tokens"], values["total"]
    sums = {way: sum(spent[way] for spent in tokens.values()) for way in ("input", "output")}
    rows = [(role, calls, tokens[role], values["usd"][role]) for role, calls in values["calls"].items()]
    cells = [
        (role, f"{calls:,}", count(spent["input"]), count(spent["output"]), usd_cell(usd))
        for role, calls, spent, usd in [*rows, ("total", total["calls"], sums, total["usd"])]
    ]
    columns = ("role", "calls", "input tokens", "output tokens", "cost")
    shown = len(columns) - (total["usd"] == 0)  # what costs nothing has no dollars
    table = plain_table(
        columns[:shown], [row[:shown] for row in cells], bold="total", title="About what the run will spend"
    )
    print_table(console, table)
    parts = ", ".join(f"{name} {calls:,}" for name, calls in values["parts"].items())
    say(console, _end(spending), f"Calls: {parts}.", _time(spending, config), *notes(config))
    if not model_named(config.model).stand_in:
        note = "Tokens are those of the embedded model's replies: a model that writes more takes more."
        say(console, note, style="yellow")


def show_context_use(
    uses: Mapping[str, ContextUse], config: Config, console: Console, *, model: str, source: str
) -> None:
    """Print what memory shows under each policy where nothing bounds it, so that a budget can be set.

    ``source`` says what was played.
    """
    rows = ((name, f"{use.mean_tokens:,.0f}", f"{use.most_tokens:,}") for name, use in uses.items())
    console.print("\nWhat memory shows before a reply or an answer where nothing bounds it", style="italic")
    print_table(console, plain_table(("policy", "tokens, mean", "tokens, most"), rows))
    limit = config.context_tokens
    bound = "set context_tokens to bound it" if limit is None else f"context_tokens bounds it at {limit:,}"
    say(console, f"Measured with {model} on {source}; {bound}.")
    if not model_named(model).remote and model_named(config.model).remote:
        say(console, f"Messages of {config.model} may be longer: --ask asks it, which spends calls.", style="yellow")


def _end(spending: CostEstimate) -> str:
    candidates = f"about {spending.candidates:,} of {spending.planned:,} candidates"
    if spending.ended_by == "generations":
        return f"The search ends when all its generations are done, after {candidates}."
    return f"The search ends when its share of search.budget.{spending.ended_by} is used up, after {candidates}."


def _time(spending: CostEstimate, config: Config) -> str:
    if spending.seconds is None:
        return "How long it takes is not known: that is the endpoint's to say."
    clock, here = clock_text(spending.seconds), config.stands_in
    return f"It takes {clock} very roughly, on this machine." if here else f"It takes {clock} at least, at this pace."
