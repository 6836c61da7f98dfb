"""The readers beside published models: how far they are, and how a model that was left out is predicted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mnemotune.experiments.embedded_model import natives as module
from mnemotune.experiments.embedded_model.natives import (
    CHANCE,
    GRID,
    IN_A_PERIOD,
    ON_THE_MEAN,
    Native,
    accuracies,
    distance,
    main,
    natives,
    nearest,
    predicted_mean,
    reader,
)
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.reading import Reading


def test_the_published_means_are_those_of_the_site_and_each_has_its_reader() -> None:
    means = {name: round(sum(model.accuracy) / len(model.accuracy), 3) for name, model in natives().items()}
    assert means == {
        "gpt-4.1-mini": 0.367,
        "claude-sonnet-4": 0.462,
        "gemini-2.5-flash": 0.448,
        "deepseek-v3": 0.326,
        "gpt-4o-mini": 0.317,
    }
    assert natives().keys() == READERS.keys()
    assert next(iter(READERS.values())) == Reading()


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([0.0, 0.0], 0.0),
        ([ON_THE_MEAN, ON_THE_MEAN], 1.0),
        ([IN_A_PERIOD, -IN_A_PERIOD], 1.0),
        ([0.24, 0.0], 2.4),
    ],
)
def test_one_is_where_a_bar_is_just_held(gaps: list[float], expected: float) -> None:
    assert distance([0.5 + gap for gap in gaps], [0.5, 0.5]) == pytest.approx(expected)


def mean_on_the_line(upper_bound: float, first: float) -> float:
    """Return 0.1 + 0.3 of the first period, all between chance and the upper bound."""
    height = upper_bound - CHANCE
    return CHANCE + height * (0.1 + 0.3 * (first - CHANCE) / height)


def test_a_model_on_the_line_of_the_others_is_predicted_rightly() -> None:
    others = [
        Native(bound, [first, 2 * mean_on_the_line(bound, first) - first])
        for bound, first in ((0.83, 0.7), (0.73, 0.5), (0.93, 0.6))
    ]
    assert predicted_mean(0.88, 0.53, others) == pytest.approx(mean_on_the_line(0.88, 0.53))


def test_the_reader_that_is_nearest_in_the_first_period_and_in_the_mean_is_taken() -> None:
    grid = {(1.0, 0.0): [0.8, 0.2], (2.0, 0.0): [0.8, 0.4], (3.0, 0.0): [0.4, 0.6]}
    assert nearest(grid, 0.8, 0.59) == (2.0, 0.0)
    assert nearest(grid, 0.5, 0.5) == (3.0, 0.0)


def test_a_pair_of_the_grid_is_a_reader_that_plays() -> None:
    class Inline:
        map = staticmethod(map)

    pair = GRID[0]
    assert (reader(pair).sharpness, reader(pair).habit, reader(pair).focus) == (*pair, Reading().focus)
    [curve] = accuracies("generated:1@3", [reader(pair)], Inline())  # type: ignore[arg-type]
    assert len(curve) == 11
    assert all(0 <= accuracy <= 1 for accuracy in curve)


def made_up(_: str, readings: Sequence[Reading], __: object) -> list[list[float]]:
    """The sharper a reader, the better it begins; the stronger its habit, the worse it goes on."""
    return [[0.5 + 0.03 * r.sharpness, *[0.4 - 0.05 * r.habit] * 10] for r in readings]


def test_each_model_has_its_reader_beside_what_is_predicted_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "accuracies", made_up)
    main("base")
    first, second = capsys.readouterr().out.split("\n\n")
    assert [line.split(" | ")[0].lstrip("| ") for line in first.splitlines()[2:]] == list(natives())
    assert "| gpt-4.1-mini | 0.710 (0.695) | 0.310 (0.550) |" in second


def test_one_more_model_is_predicted_from_its_upper_bound_and_its_first_period(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "accuracies", made_up)
    main("base", 0.9, 0.7)
    printed = capsys.readouterr().out
    assert printed.startswith("sharpness 7.0, habit ")
    assert "mean 0.4" in printed
    assert ": 0.710 " in printed
