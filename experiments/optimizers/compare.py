"""Compare optimizers of memory policies at equal calls, and count what a search accepts where nothing is better.

python -m mnemotune.experiments.optimizers.compare OUT [--seeds N] [--set KEY=VALUE]...

What is finished in OUT is not run again, and what was stopped goes on. Writes a folder of results for mnemotune against
the others, one for mnemotune with a third of the calls, and ``null.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...optimizer.ablation import Run, carry_out, load_ablation, runs_of
from ...optimizer.allowance import Allowance, splits_of
from ...optimizer.comparison import compare_variants, markdown, read_searches, write_comparison
from ...optimizer.config import ConfigError
from ...optimizer.models import protocol_of
from . import null

COMPARISON = Path(__file__).parent / "comparison.yaml"
OURS, THIRD = "mnemotune", "mnemotune at a third"


def check_third(runs: Sequence[Run]) -> None:
    """Raise ConfigError unless a third of the calls is a third of what the sealed test leaves to the search."""
    configs = {run.variant: run.config for run in runs}
    shares = {}
    for name in (OURS, THIRD):
        calls = Allowance.of(configs[name], splits_of(configs[name]), protocol_of(configs[name])).search.calls
        if calls is None:
            raise ConfigError("search.budget.calls: without a limit there is no third of it")
        shares[name] = calls
    if not 0.99 < 3 * shares[THIRD] / shares[OURS] <= 1:
        third, reserve = shares[OURS] // 3, (configs[OURS].search.budget.calls or 0) - shares[OURS]
        raise ConfigError(
            f"--set: with these settings {shares[THIRD]:,} calls are no third of {shares[OURS]:,}; "
            f"set search.budget.calls of {THIRD!r} in {COMPARISON.name} to {third + reserve:,}"
        )


def main() -> None:
    """Run what is missing, write the tables and plots, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    ablation = load_ablation(COMPARISON, seeds=range(given.seeds))
    runs = runs_of(ablation, beside=COMPARISON.parent, out=given.out / "runs", overrides=given.set)
    try:
        check_third(runs)
    except ConfigError as error:
        parser.error(str(error))
    carry_out(runs, finished=lambda run: print(f"finished: {run.folder}", flush=True))
    found = read_searches(runs)
    about: Mapping[str, Any] = {"seeds": list(ablation.seeds), "settings": given.set, "changes": ablation.variants}
    baselines = {name: searches for name, searches in found.items() if name not in {OURS, THIRD}}
    for first, others in ((OURS, {**baselines, THIRD: found[THIRD]}), (THIRD, baselines)):
        variants = compare_variants({first: found[first], **others})
        write_comparison(variants, given.out / first, about=about)
        print(f"\nAgainst {first}:\n\n{markdown(variants)}")
    told = null.table(null.carry_out(given.out, null.SEARCHES))
    (given.out / "null.md").write_text(told, encoding="utf-8")
    print(f"\nWhere nothing is better:\n\n{told}")


if __name__ == "__main__":
    main()
