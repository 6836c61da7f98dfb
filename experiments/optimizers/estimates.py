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

from ...optimizer.ablation import Run, carry_out, slug
from ...optimizer.allowance import splits_of
from ...optimizer.config import load_config
from ...optimizer.estimate import estimate
from ...optimizer.outcome import open_run
from ...optimizer.rehearsal import rehearse

SEARCH, QUICK = "configs/search.yaml", "configs/quickstart.yaml"
SEARCHES: Mapping[str, tuple[str, Sequence[str]]] = {
    "`search.yaml`, calls 40,000": (SEARCH, ["search.budget.calls=40000"]),
    "`search.yaml`, calls 80,000": (SEARCH, ["search.budget.calls=80000"]),
    "`search.yaml`, calls 60,000, seed 11": (SEARCH, ["search.budget.calls=60000", "search.seed=11"]),
    "`search.yaml`, calls 70,000, seed 3": (SEARCH, ["search.budget.calls=70000", "search.seed=3"]),
    "`search.yaml`, 4 + 4 + 4 users, 8 generations": (
        SEARCH,
        ["splits.train=4", "splits.validation=4", "splits.test=4", "search.generations=8"],
    ),
    "`search.yaml`, 6 + 6 + 8 users, seed 4, 12 generations": (
        SEARCH,
        ["splits.train=6", "splits.validation=6", "splits.test=8", "search.seed=4", "search.generations=12"],
    ),
    "`search.yaml`, prompts only, 6 generations": (SEARCH, ["search.numbers=false", "search.generations=6"]),
    "`search.yaml`, prompts only, seed 5, 8 generations": (
        SEARCH,
        ["search.numbers=false", "search.seed=5", "search.generations=8"],
    ),
    "`search.yaml`, numbers only, 8 generations": (SEARCH, ["search.prompts=false", "search.generations=8"]),
    "`search.yaml`, seed 7, 10 generations": (SEARCH, ["search.seed=7", "search.generations=10"]),
    "`search.yaml`, seed 3, 25 generations": (SEARCH, ["search.seed=3", "search.generations=25"]),
    "`quickstart.yaml`": (QUICK, []),
    "`quickstart.yaml`, seed 5, 5 generations": (QUICK, ["search.seed=5", "search.generations=5"]),
    "`quickstart.yaml` without screening": (QUICK, ["search.screening=null", "search.budget.calls=400000"]),
}
"""By name, a bundled config and what is changed in it."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a search was estimated to spend, and what it spent."""

    name: str
    ended_by: str
    """What the estimate says that ends it."""
    calls: tuple[int, int]
    """Estimated, spent."""
    tokens: tuple[int, int]


def planned(out: Path, searches: Mapping[str, tuple[str, Sequence[str]]]) -> list[Run]:
    """Return what is to be carried out."""
    configs = {name: load_config(config, overrides=changes) for name, (config, changes) in searches.items()}
    return [Run(name, config.search.seed, config, out / slug(name)) for name, config in configs.items()]


def compared(run: Run) -> Row:
    """Estimate a search that was carried out."""
    splits = splits_of(run.config)
    found = estimate(run.config, splits, asyncio.run(rehearse(run.config, splits, clock=time.process_time)))
    told: Mapping[str, Any] = found.as_json()["total"]
    spent = open_run(run.folder).consumed
    return Row(run.variant, found.ended_by, (told["calls"], spent.calls), (told["tokens"], spent.tokens))


def table(rows: Sequence[Row]) -> str:
    """Return a Markdown table."""
    head = "| run | ended by | calls estimated | spent | error | tokens estimated | spent | error |"
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *_lines(rows)]) + "\n"


def _lines(rows: Sequence[Row]) -> Iterator[str]:
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
    runs = planned(parser.parse_args().out, SEARCHES)
    carry_out(runs, finished=lambda run: print(f"finished: {run.folder}", flush=True))
    print(table([compared(run) for run in runs]))


if __name__ == "__main__":
    main()
