"""What a run will spend, as a table and a few sentences."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from ...policies.lm.providers import model_named
from ..config import Config
from ..models import notes
from ..search.estimate import CostEstimate
from .progress import clock_text
from .table import count


def show_estimate(found: CostEstimate, config: Config, console: Console) -> None:
    """Print the table of an estimate, and what it says of the run of a priced config."""
    told = found.as_json()
    table = Table(
        title="About what the run will spend", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for column in ("role", "calls", "input tokens", "output tokens", "cost"):
        table.add_column(column, justify="left" if column == "role" else "right", no_wrap=True)
    for role, calls in told["calls"].items():
        tokens = told["tokens"][role]
        table.add_row(role, f"{calls:,}", count(tokens["input"]), count(tokens["output"]), _dollars(told["usd"][role]))
    sums = (sum(tokens[way] for tokens in told["tokens"].values()) for way in ("input", "output"))
    table.add_row(
        "total", f"{told['total']['calls']:,}", *map(count, sums), _dollars(told["total"]["usd"]), style="bold"
    )
    console.print(table)
    for line in (_end(found), _parts(found), _time(found, config), *notes(config)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not model_named(config.model).stand_in:
        note = "Tokens are those of the embedded model's replies: a model that writes more takes more."
        console.print(note, style="yellow", highlight=False, soft_wrap=True)


def _end(found: CostEstimate) -> str:
    candidates = f"about {found.candidates:,} of {found.planned:,} candidates"
    if found.ended_by == "generations":
        return f"The search ends when all its generations are done, after {candidates}."
    return f"The search ends when its share of search.budget.{found.ended_by} is used up, after {candidates}."


def _parts(found: CostEstimate) -> str:
    return "Calls: " + ", ".join(f"{name} {calls:,}" for name, calls in found.as_json()["parts"].items()) + "."


def _time(found: CostEstimate, config: Config) -> str:
    if found.seconds is None:
        return "How long it takes is not known: that is the endpoint's to say."
    clock, here = clock_text(found.seconds), config.stands_in
    return f"It takes {clock} very roughly, on this machine." if here else f"It takes {clock} at least, at this pace."


def _dollars(usd: float | None) -> str:
    return "not known" if usd is None else f"${usd:,.2f}"
