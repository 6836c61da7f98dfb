"""Look for parameters of the reader that bring the four arms nearer to the published ones, on users of their own.

python -m mnemotune.experiments.embedded_model.fit [TRIALS] [DATA]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import pairwise

import optuna

from ...policies.lm.embedded.reading import Reading
from .arms import ACCURACY_BAR, DECAY_BAR, ORDER, SHARE_BAR, SHARES, Arm, misses, published, run_all

TRAIN = "generated:20@101"
SPACE = {
    "sharpness": (4.0, 12.0),
    "focus": (1.0, 3.0),
    "voice": (0.5, 3.0),
    "forgetting": (0.2, 0.9),
    "primacy": (1.5, 4.5),
    "kinship": (0.2, 1.0),
}


def distance(arms: Mapping[str, Arm]) -> float:
    """Return how far the arms are from the published ones: squared gaps in units of their bars, and a wrong order."""
    total = 0.0
    for name, arm in arms.items():
        there = published()[name]
        total += ((arm.mean("accuracy") - there.mean("accuracy")) / ACCURACY_BAR) ** 2
        total += sum(((arm.mean(share) - there.mean(share)) / SHARE_BAR) ** 2 for share in SHARES)
        total += ((arm.decay - there.decay) / DECAY_BAR) ** 2
    scores = [arms[name].mean("memory_score") for name in ORDER]
    return total + sum(max(0.0, lower - higher) for higher, lower in pairwise(scores)) * 100


def main() -> None:
    """Print each better find."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    data = sys.argv[2] if len(sys.argv) > 2 else TRAIN
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, multivariate=True))
    study.enqueue_trial({name: asdict(Reading())[name] for name in SPACE})
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        for _ in range(trials):
            trial = study.ask()
            reading = Reading(**{name: trial.suggest_float(name, *bounds) for name, bounds in SPACE.items()})
            arms = run_all(data, executor, reading)
            study.tell(trial, distance(arms))
            if study.best_trial.number == trial.number:
                print(f"{trial.number}: {study.best_value:.2f} {trial.params}", *misses(arms), sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
