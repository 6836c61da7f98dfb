"""Compare optimizers of memory policies at equal calls, and mnemotune with a third of what the best of the others has.

python -m mnemotune.experiments.optimizers.compare OUT [--problem FILE] [--seeds N] [--set KEY=VALUE]...

What is finished in OUT is not run again, and what was stopped goes on. All optimizers search with the problem's calls;
mnemotune and the one that then comes next search with three times as many too. OUT gets a folder of results for each
comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ...env.statistics import nan_mean
from ...optimizer.config import Config, ConfigError, load_config
from ...optimizer.models import track_of
from ...optimizer.search.ablation import (
    Ablation,
    Finished,
    compare_variants,
    load_ablation,
    read_searches,
    runs_of,
)
from ...optimizer.search.allowance import Allowance, splits_of
from ...optimizer.search.searches import carry_out, ready
from ...optimizer.views.comparison import markdown, write_comparison
from ...optimizer.views.listeners import unseen_listeners
from ..command import run

HERE = Path(__file__).parent
COMPARISON = HERE / "comparison.yaml"
OURS = "mnemotune"
AT_3X = " at 3x"
"""What the name of an optimizer with three times the calls ends with."""


def thrice(config: Config) -> int:
    """Return a budget in calls that leaves the search three times what this config's leaves it, in thousands.

    Raises ConfigError where calls have no limit.
    """
    allowance = Allowance.of(config, splits_of(config), track_of(config))
    calls = allowance.search.calls
    if calls is None:
        raise ConfigError("search.budget.calls: without a limit there is no three times as many")
    return math.ceil((allowance.reserve + 3 * calls) / 1000) * 1000


def with_calls(ablation: Ablation, names: Sequence[str], calls: int) -> Ablation:
    """Return an ablation of these variants alone, each with so many calls, and with three times in its name."""
    changes = {name + AT_3X: {**ablation.variants[name], "search.budget.calls": calls} for name in names}
    return ablation.model_copy(update={"variants": changes})


def best_baseline(searches: Mapping[str, Sequence[Finished]], *, by_both: bool) -> str:
    """Return which optimizer besides mnemotune ends highest on sealed users, on the average of all its searches.

    ``by_both`` is by the mean of score and evidence recall, else it is by the score.
    """
    others = [name for name in searches if name != OURS]
    ends = {name: [search.both if by_both else search.by_group for search in searches[name]] for name in others}
    return max(others, key=lambda name: nan_mean([nan_mean(list(end.values())) for end in ends[name]]))


def comparisons(names: Sequence[str], best: str) -> Mapping[str, Sequence[str]]:
    """Return what is compared with what, by the name of its folder; the first of each is mnemotune."""
    return {
        "equal calls": names,
        "a third of the calls": [OURS, best + AT_3X],
        "three times the calls": [OURS + AT_3X, best + AT_3X],
    }


def main(
    out: Path,
    problem: Annotated[str, typer.Option(help="problem.yaml, or written.yaml beside it.")] = "problem.yaml",
    seeds: int = 10,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, dots in the key.")] = None,
) -> None:
    """Run what is missing, write the tables and plots, and print the tables."""
    overrides = settings or []
    ablation = load_ablation(COMPARISON, seeds=range(seeds)).model_copy(update={"config": problem})

    def searched(part: Ablation) -> dict[str, list[Finished]]:
        runs = ready(runs_of(part, beside=HERE, out=out / "runs", overrides=overrides), listeners=unseen_listeners)
        carry_out(runs, listeners=unseen_listeners, finished=lambda run: print(f"finished: {run.folder}", flush=True))
        return read_searches(runs)

    try:
        config = load_config(HERE / problem, overrides=overrides)
        calls = thrice(config)
        searches = searched(ablation)
        best = best_baseline(searches, by_both=config.search.objective == "score-and-evidence")
        searches |= searched(with_calls(ablation, [OURS, best], calls))
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    about: dict[str, Any] = {"problem": problem, "seeds": list(ablation.seeds), "settings": overrides}
    about |= {"changes": ablation.variants, "three_times_the_calls": calls}
    for name, compared in comparisons(list(ablation.variants), best).items():
        variants = compare_variants({variant: searches[variant] for variant in compared})
        write_comparison(variants, out / name.replace(" ", "-"), about=about)
        print(f"\n{name.capitalize()}:\n\n{markdown(variants)}")


if __name__ == "__main__":
    run(main)
