"""Compare optimizers of memory policies at equal calls.

python -m mnemotune.experiments.optimizers.compare OUT [--problem FILE] [--seeds N] [--set KEY=VALUE]...

What is finished in OUT is not run again, and what was stopped goes on. Each optimizer searches with the problem's calls
and with three times as many; OUT gets a folder of results for each comparison.
"""

from __future__ import annotations

import argparse
import math
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
AT_3X = " at 3x"
"""What the name of an optimizer with three times the calls ends with."""


def with_3x(ablation: Ablation, *, overrides: Sequence[str]) -> Ablation:
    """Return an ablation in which each variant is also given three times the calls that the sealed test leaves.

    Rounded up to thousands. Raises ConfigError where calls have no limit.
    """
    config = load_config(HERE / ablation.config, overrides=overrides)
    allowance = Allowance.of(config, splits_of(config), protocol_of(config))
    calls = allowance.search.calls
    if calls is None:
        raise ConfigError("search.budget.calls: without a limit there is no three times as many")
    thrice = {"search.budget.calls": math.ceil((allowance.reserve + 3 * calls) / 1000) * 1000}
    variants = {name + AT_3X: {**changes, **thrice} for name, changes in ablation.variants.items()}
    return ablation.model_copy(update={"variants": {**ablation.variants, **variants}})


def comparisons(names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return what is compared with what, by the name of its folder; the first of each is mnemotune."""
    others = [name for name in names if name != OURS and not name.endswith(AT_3X)]
    at_3x = [name + AT_3X for name in others]
    return {
        "equal calls": [OURS, *others],
        "three times the calls": [OURS + AT_3X, *at_3x, OURS],
        "others at three times": [OURS, *at_3x],
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
        ablation = with_3x(ablation, overrides=given.set)
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
        print(f"\n{name.capitalize()}:\n\n{markdown(variants)}")


if __name__ == "__main__":
    main()
