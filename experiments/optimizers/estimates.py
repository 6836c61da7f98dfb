"""How far `mnemotune estimate` is off: searches estimated, then carried out.

python -m mnemotune.experiments.optimizers.estimates OUT

What is finished in OUT is not run again, and what was stopped goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...optimizer.config import load_config
from ...optimizer.search.ablation import Run, as_overrides, slug
from ...optimizer.search.allowance import splits_of
from ...optimizer.search.estimate import estimate
from ...optimizer.search.outcome import open_run
from ...optimizer.search.rehearsal import rehearse
from ...optimizer.search.searches import carry_out, ready
from ...optimizer.views.listeners import unseen_listeners
from ...optimizer.views.table import markdown_lines
from ..command import run

SEARCHES = Path(__file__).with_suffix(".yaml")
COLUMNS = ("run", "ended by", "calls estimated", "spent", "error", "tokens estimated", "spent", "error")


@dataclass(frozen=True, slots=True)
class SearchRow:
    """What a search was estimated to spend, and what it spent."""

    name: str
    ended_by: str
    """What the estimate says that ends it."""
    calls: tuple[int, int]
    """Estimated, spent."""
    tokens: tuple[int, int]


def planned(out: Path, searches: Mapping[str, Mapping[str, Any]]) -> list[Run]:
    """Return what is to be carried out: searches by name, with what is changed in a config.

    Raises ConfigError and the like for one that cannot be run. Each has data of its own.
    """
    runs = []
    for name, changes in searches.items():
        others = {key: value for key, value in changes.items() if key != "config"}
        config = load_config(changes.get("config", "search.yaml"), overrides=as_overrides(others))
        run = Run(name, config.search.seed, config, out / slug(name))
        runs += ready([run], listeners=unseen_listeners)
    return runs


def compared(run: Run) -> SearchRow:
    """Estimate a search that was carried out."""
    splits = splits_of(run.config)
    estimated = estimate(run.config, splits, asyncio.run(rehearse(run.config, splits, clock=time.process_time)))
    total: Mapping[str, Any] = estimated.as_json()["total"]
    spent = open_run(run.folder).consumed
    return SearchRow(run.variant, estimated.ended_by, (total["calls"], spent.calls), (total["tokens"], spent.tokens))


def table(rows: Sequence[SearchRow]) -> str:
    """Return a Markdown table."""
    return "\n".join([*markdown_lines(COLUMNS, map(_cells, rows)), ""])


def _cells(row: SearchRow) -> list[str]:
    calls, millions = (f"{n:,}" for n in row.calls), (f"{n / 1e6:.0f}M" for n in row.tokens)
    return [row.name, row.ended_by, *calls, _error(*row.calls), *millions, _error(*row.tokens)]


def _error(estimated: int, spent: int) -> str:
    return f"{estimated / spent - 1:+.1%}"


def main(out: Path) -> None:
    """Carry out what is missing, estimate all, and print the table."""
    runs = planned(out, yaml.safe_load(SEARCHES.read_text(encoding="utf-8")))
    carry_out(runs, listeners=unseen_listeners, finished=lambda run: print(f"finished: {run.folder}", flush=True))
    print(table([compared(run) for run in runs]))


if __name__ == "__main__":
    run(main)
