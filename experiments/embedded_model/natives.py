"""The readers beside the models that they were fitted to, and how other models' accuracies are predicted.

python -m mnemotune.experiments.embedded_model.natives [DATA] [UPPER_BOUND FIRST_PERIOD]

Prints, for each published model, its accuracies by period beside its reader's, and beside what is predicted where it is
left out. Where an upper bound and a first period are given, prints what is predicted for a model that has these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import yaml
from typer import Argument

from ...data.cores import usable_cores
from ...optimizer.views.table import markdown_lines
from ...policies.lm.embedded.readers import READERS
from ...policies.lm.embedded.reading import Reading
from ..command import run
from .arms import native_accuracies

TRAIN = "generated:20@101"
SHARPNESS = (0.1, 0.2, 0.3, 0.5, 5.0, 7.0, 9.0)
HABIT = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
GRID = tuple(product(SHARPNESS, HABIT))
"""The two parameters in which readers differ: all pairs that are tried."""
CHANCE = 0.23
"""Accuracy of guessing, on AMemGym's users and on ours."""
ON_THE_MEAN, IN_A_PERIOD = 0.05, 0.12
"""How far a reader's accuracy may be from the published one: of the mean over periods, and in each period."""


@dataclass(frozen=True, slots=True)
class Native:
    """A published model that has the whole history in its prompt."""

    upper_bound: float
    """Its accuracy where it is given the states, in [0, 1]."""
    accuracy: Sequence[float]
    """By period."""


@cache
def natives() -> Mapping[str, Native]:
    """Return the published models, by name."""
    text = (Path(__file__).parent / "natives.yaml").read_text(encoding="utf-8")
    return {name: Native(**values) for name, values in yaml.safe_load(text).items()}


def distance(accuracy: Sequence[float], published: Sequence[float]) -> float:
    """Return how far accuracies by period are from published ones, in units of their bars; 1 is both bars just held."""
    gaps = np.subtract(accuracy, published)
    return max(abs(float(gaps.mean())) / ON_THE_MEAN, float(np.abs(gaps).max()) / IN_A_PERIOD)


def predicted_mean(upper_bound: float, first: float, others: Sequence[Native]) -> float:
    """Predict a model's mean over periods from its upper bound and its first period.

    Between chance, 0, and a model's upper bound, 1, the mean is on the line through the other models that has the least
    squares.
    """
    firsts, means = (
        [(figure - CHANCE) / (model.upper_bound - CHANCE) for figure, model in zip(figures, others, strict=True)]
        for figures in ([m.accuracy[0] for m in others], [float(np.mean(m.accuracy)) for m in others])
    )
    slope, start = np.polyfit(firsts, means, 1)
    height = upper_bound - CHANCE
    return float(CHANCE + height * (start + slope * (first - CHANCE) / height))


def nearest(grid: Mapping[tuple[float, float], Sequence[float]], first: float, mean: float) -> tuple[float, float]:
    """Return the pair of parameters whose first period and mean are nearest to these, in units of their bars."""

    def far(pair: tuple[float, float]) -> float:
        gaps = (grid[pair][0] - first) / IN_A_PERIOD, (float(np.mean(grid[pair])) - mean) / ON_THE_MEAN
        return gaps[0] ** 2 + gaps[1] ** 2

    return min(grid, key=far)


def reader(pair: tuple[float, float]) -> Reading:
    """Return the reader of two parameters; the others are those that were fitted to arms."""
    return replace(Reading(), sharpness=pair[0], habit=pair[1])


def accuracies(data: str, readings: Sequence[Reading], executor: Executor) -> list[list[float]]:
    """Return each reader's accuracies by period with the whole history in its prompt."""
    return list(executor.map(partial(native_accuracies, data), readings))


def main(
    data: Annotated[str, Argument()] = "base",
    upper_bound: Annotated[float | None, Argument()] = None,
    first: Annotated[float | None, Argument()] = None,
) -> None:
    """Print the tables."""
    with ProcessPoolExecutor(usable_cores()) as executor:
        grid = dict(zip(GRID, accuracies(TRAIN, [reader(pair) for pair in GRID], executor), strict=True))
        if upper_bound is not None and first is not None:
            pair = nearest(grid, first, predicted_mean(upper_bound, first, list(natives().values())))
            [curve] = accuracies(data, [reader(pair)], executor)
            print(f"sharpness {pair[0]}, habit {pair[1]}: mean {np.mean(curve):.3f}:", *(f"{x:.3f}" for x in curve))
            return
        left_out = {
            name: nearest(
                grid,
                model.accuracy[0],
                predicted_mean(model.upper_bound, model.accuracy[0], [m for n, m in natives().items() if n != name]),
            )
            for name, model in natives().items()
        }
        fits = {name: _closest(grid, model.accuracy) for name, model in natives().items()}
        shipped = accuracies(data, [READERS[name] for name in natives()], executor)
        predicted = accuracies(data, [reader(pair) for pair in left_out.values()], executor)
    columns = ("model", "best pair", "mean", "furthest period", "pair when left out", "its mean", "its furthest period")
    rows = []
    for name, ours, guess in zip(natives(), shipped, predicted, strict=True):
        there = natives()[name].accuracy
        rows.append([name, str(fits[name]), *_cells(ours, there), str(left_out[name]), *_cells(guess, there)])
    print(*markdown_lines(columns, rows), sep="\n")
    periods = [f"p{n}" for n in range(len(next(iter(natives().values())).accuracy))]
    curves = [
        [name, *(f"{a:.3f} ({b:.3f})" for a, b in zip(ours, natives()[name].accuracy, strict=True))]
        for name, ours in zip(natives(), shipped, strict=True)
    ]
    print("", *markdown_lines(["model", *periods], curves), sep="\n")


def _closest(grid: Mapping[tuple[float, float], Sequence[float]], published: Sequence[float]) -> tuple[float, float]:
    return min(grid, key=lambda pair: distance(grid[pair], published))


def _cells(ours: Sequence[float], there: Sequence[float]) -> list[str]:
    gaps = np.subtract(ours, there)
    return [f"{np.mean(ours):.3f} ({np.mean(there):.3f})", f"{gaps[np.abs(gaps).argmax()]:+.3f}"]


if __name__ == "__main__":
    run(main)
