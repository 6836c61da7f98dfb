"""Look for parameters of the reader that bring the four arms nearer to the published ones, on users of their own.

python -m mnemotune.experiments.embedded_model.fit [TRIALS] [DATA]
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import pairwise
from typing import Annotated

import optuna
from typer import Argument

from ...data.cores import usable_cores
from ...policies.lm.embedded.reading import Reading
from ..command import run
from .arms import BARS, ORDER, Arm, misses, published, run_all

TRAIN = "generated:20@101"
SPACE = {
    "sharpness": (2.0, 14.0),
    "focus": (1.0, 2.0),
    "habit": (0.0, 3.0),
    "voice": (0.0, 2.0),
    "forgetting": (0.0, 1.5),
    "kinship": (0.1, 1.0),
}


def distance(arms: Mapping[str, Arm]) -> float:
    """Return how far the arms are from the published ones: squared gaps in units of their bars, and a wrong order."""
    gaps = [gap / BARS[m] for name, arm in arms.items() for m, gap in arm.gaps(published()[name]).items()]
    scores = [arms[name].mean("memory_score") for name in ORDER]
    disorder = sum(max(0.0, lower - higher) for higher, lower in pairwise(scores))
    return sum(gap**2 for gap in gaps) + disorder * 100


def main(trials: Annotated[int, Argument()] = 40, data: Annotated[str, Argument()] = TRAIN) -> None:
    """Print each better find."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, multivariate=True))
    study.enqueue_trial({name: asdict(Reading())[name] for name in SPACE})
    with ProcessPoolExecutor(usable_cores()) as executor:
        for _ in range(trials):
            trial = study.ask()
            reading = Reading(**{name: trial.suggest_float(name, *bounds) for name, bounds in SPACE.items()})
            arms = run_all(data, executor, reading)
            study.tell(trial, distance(arms))
            if study.best_trial.number == trial.number:
                print(f"{trial.number}: {study.best_value:.2f} {trial.params}", *misses(arms), sep="\n  ", flush=True)


if __name__ == "__main__":
    run(main)
