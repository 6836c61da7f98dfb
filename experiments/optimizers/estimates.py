"""How far `mnemotune estimate` is off: searches estimated, then carried out.

python -m mnemotune.experiments.optimizers.estimates OUT

What is finished in OUT is not run again, and what was stopped goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...optimizer.config import Config, load_config
from ...optimizer.search.ablation import Run, as_overrides, carry_out, slug
from ...optimizer.search.allowance import splits_of
from ...optimizer.search.estimate import estimate
from ...optimizer.search.outcome import open_run
from ...optimizer.search.rehearsal import rehearse
from ...optimizer.views.listeners import unseen_listeners

SEARCHES = Path(__file__).with_suffix(".yaml")


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
    """Return what is to be carried out: searches by name, with what is changed in a config."""
    configs = {name: _changed(**changes) for name, changes in searches.items()}
    return [Run(name, config.search.seed, config, out / slug(name)) for name, config in configs.items()]


def _changed(*, config: str = "search.yaml", **changes: Any) -> Config:
    return load_config(config, overrides=as_overrides(changes))


def compared(run: Run) -> SearchRow:
    """Estimate a search that was carried out."""
    splits = splits_of(run.config)
    estimated = estimate(run.config, splits, asyncio.run(rehearse(run.config, splits, clock=time.process_time)))
    total: Mapping[str, Any] = estimated.as_json()["total"]
    spent = open_run(run.folder).consumed
    return SearchRow(run.variant, estimated.ended_by, (total["calls"], spent.calls), (total["tokens"], spent.tokens))


def table(rows: Sequence[SearchRow]) -> str:
    """Return a Markdown table."""
    head = "| run | ended by | calls estimated | spent | error | tokens estimated | spent | error |"
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *_lines(rows)]) + "\n"


def _lines(rows: Sequence[SearchRow]) -> Iterator[str]:
    for row in rows:
        calls, millions = (f"{n:,}" for n in row.calls), (f"{n / 1e6:.0f}M" for n in row.tokens)
        cells = row.name, row.ended_by, *calls, _error(*row.calls), *millions, _error(*row.tokens)
        yield f"| {' | '.join(cells)} |"


def _error(estimated: int, spent: int) -> str:
    return f"{estimated / spent - 1:+.1%}"


def main() -> None:
    """Carry out what is missing, estimate all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    runs = planned(parser.parse_args().out, yaml.safe_load(SEARCHES.read_text(encoding="utf-8")))
    carry_out(runs, listeners=unseen_listeners, finished=lambda run: print(f"finished: {run.folder}", flush=True))
    print(table([compared(run) for run in runs]))


if __name__ == "__main__":
    main()
