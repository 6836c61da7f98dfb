"""Compare optimizers of memory policies at equal calls.

python -m mnemotune.experiments.optimizers.compare OUT [--problem FILE] [--seeds N] [--set KEY=VALUE]...

What is finished in OUT is not run again, and what was stopped goes on. Each optimizer searches with all calls and with
a third of them; OUT gets a folder of results for each comparison.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...optimizer.ablation import Ablation, carry_out, load_ablation, runs_of
from ...optimizer.allowance import Allowance, splits_of
from ...optimizer.comparison import compare_variants, markdown, read_searches, write_comparison
from ...optimizer.config import ConfigError, load_config
from ...optimizer.models import protocol_of

HERE = Path(__file__).parent
COMPARISON = HERE / "comparison.yaml"
OURS = "mnemotune"
AT_A_THIRD = " at a third"
"""What the name of an optimizer with a third of the calls ends with."""


def with_thirds(ablation: Ablation, *, overrides: Sequence[str]) -> Ablation:
    """Return an ablation in which each variant also has a third of the calls that the sealed test leaves to the search.

    Raises ConfigError where calls have no limit.
    """
    config = load_config(HERE / ablation.config, overrides=overrides)
    allowance = Allowance.of(config, splits_of(config), protocol_of(config))
    calls = allowance.search.calls
    if calls is None:
        raise ConfigError("search.budget.calls: without a limit there is no third of it")
    third = {"search.budget.calls": (allowance.reserve + calls // 3) // 1000 * 1000}
    variants = {name + AT_A_THIRD: {**changes, **third} for name, changes in ablation.variants.items()}
    return ablation.model_copy(update={"variants": {**ablation.variants, **variants}})


def comparisons(names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return what is compared with what, by the name of its folder; the first of each is mnemotune."""
    others = [name for name in names if name != OURS and not name.endswith(AT_A_THIRD)]
    return {
        "all calls": [OURS, *others],
        "a third": [name + AT_A_THIRD for name in (OURS, *others)],
        "a third against all calls": [OURS + AT_A_THIRD, OURS, *others],
    }


def main() -> None:
    """Run what is missing, write the tables and plots, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--problem", default="problem.yaml", help="problem.yaml, or written.yaml beside it")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    ablation = load_ablation(COMPARISON, seeds=range(given.seeds)).model_copy(update={"config": given.problem})
    try:
        ablation = with_thirds(ablation, overrides=given.set)
        runs = runs_of(ablation, beside=HERE, out=given.out / "runs", overrides=given.set)
    except ConfigError as error:
        parser.error(str(error))
    carry_out(runs, finished=lambda run: print(f"finished: {run.folder}", flush=True))
    found = read_searches(runs)
    about: Mapping[str, Any] = {
        "problem": given.problem,
        "seeds": list(ablation.seeds),
        "settings": given.set,
        "changes": ablation.variants,
    }
    for name, compared in comparisons(list(found)).items():
        variants = compare_variants({variant: found[variant] for variant in compared})
        write_comparison(variants, given.out / name.replace(" ", "-"), about=about)
        print(f"\nWith {name}:\n\n{markdown(variants)}")


if __name__ == "__main__":
    main()
