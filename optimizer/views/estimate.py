"""What a run will spend, as a table and a few sentences."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...policies.assistant import ContextUse
from ...policies.lm.providers import model_named
from ..config import Config
from ..models import notes
from ..search.estimate import CostEstimate
from .progress import clock_text
from .table import count


def show_estimate(spending: CostEstimate, config: Config, console: Console) -> None:
    """Print the table of an estimate, and what it says of the run of a priced config."""
    values = spending.as_json()
    table = Table(
        title="About what the run will spend", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for column in ("role", "calls", "input tokens", "output tokens", "cost"):
        table.add_column(column, justify="left" if column == "role" else "right", no_wrap=True)
    for role, calls in values["calls"].items():
        tokens = values["tokens"][role]
        table.add_row(
            role, f"{calls:,}", count(tokens["input"]), count(tokens["output"]), _dollars(values["usd"][role])
        )
    sums = (sum(tokens[way] for tokens in values["tokens"].values()) for way in ("input", "output"))
    table.add_row(
        "total", f"{values['total']['calls']:,}", *map(count, sums), _dollars(values["total"]["usd"]), style="bold"
    )
    console.print(table)
    for line in (_end(spending), _parts(spending), _time(spending, config), *notes(config)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not model_named(config.model).stand_in:
        note = "Tokens are those of the embedded model's replies: a model that writes more takes more."
        console.print(note, style="yellow", highlight=False, soft_wrap=True)


def show_context_use(
    uses: Mapping[str, ContextUse], config: Config, console: Console, *, model: str, source: str
) -> None:
    """Print what memory puts before a reply under each policy where nothing bounds it, so that a budget can be set.

    ``source`` says what was played.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("policy", "tokens, mean", "tokens, most"):
        table.add_column(column, justify="left" if column == "policy" else "right", no_wrap=True)
    for name, use in uses.items():
        table.add_row(Text(name), f"{use.mean_tokens:,.0f}", f"{use.most_tokens:,}")
    console.print("\nWhat memory shows before a reply where nothing bounds it", style="italic")
    console.print(table)
    limit = config.context_tokens
    bound = "set context_tokens to bound it" if limit is None else f"context_tokens bounds it at {limit:,}"
    console.print(f"Measured with {model} on {source}; {bound}.", highlight=False, soft_wrap=True)
    if not model_named(model).remote and model_named(config.model).remote:
        note = f"Messages of {config.model} may be longer: --ask asks it, which spends calls."
        console.print(note, style="yellow", highlight=False, soft_wrap=True)


def _end(spending: CostEstimate) -> str:
    candidates = f"about {spending.candidates:,} of {spending.planned:,} candidates"
    if spending.ended_by == "generations":
        return f"The search ends when all its generations are done, after {candidates}."
    return f"The search ends when its share of search.budget.{spending.ended_by} is used up, after {candidates}."


def _parts(spending: CostEstimate) -> str:
    return "Calls: " + ", ".join(f"{name} {calls:,}" for name, calls in spending.as_json()["parts"].items()) + "."


def _time(spending: CostEstimate, config: Config) -> str:
    if spending.seconds is None:
        return "How long it takes is not known: that is the endpoint's to say."
    clock, here = clock_text(spending.seconds), config.stands_in
    return f"It takes {clock} very roughly, on this machine." if here else f"It takes {clock} at least, at this pace."


def _dollars(usd: float | None) -> str:
    return "not known" if usd is None else f"${usd:,.2f}"
