"""Self-contained pages beside the report: one style sheet, and drawings that follow the reader's colours."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...data.resources import resource
from ...env.statistics import Estimate
from .progress import clock_text
from .table import cost_cells, count, number, signed, usd_cell, with_interval

DIFFERENCES = {"  ": "same", "+ ": "added", "- ": "removed"}
"""Kinds of lines, by what difflib puts before them."""
WIDTH, HEIGHT, LEFT = 640, 240, 44
"""Of a chart; ``LEFT`` is where its lines begin."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where values lie on a drawing that is 100 wide; 0 is always on it."""

    low: float
    high: float

    @classmethod
    def of(cls, estimates: Iterable[Estimate | None]) -> Scale:
        """Return a scale on which all these have room."""
        known = [e for e in estimates if e is not None]
        ends = [end for e in known for end in (e.mean, e.low, e.high) if not math.isnan(end)]
        return cls(min([0.0, *ends]), max([0.0, *ends]))

    def at(self, value: float) -> float:
        """Return a value's place."""
        span = self.high - self.low
        return 50.0 if span <= 0 else round(2 + 96 * (value - self.low) / span, 2)


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over stages, as a drawing has them."""

    label: str
    lines: tuple[str, ...]
    """The points of each line; stages without a value are left out."""
    ticks: tuple[tuple[float, str], ...]
    stages: tuple[tuple[float, str], ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT

    @classmethod
    def of(cls, series: Mapping[str, Sequence[float]], *, label: str) -> Chart:
        """Draw a line for each name; stages are numbered from 0."""
        known = [value for values in series.values() for value in values if not math.isnan(value)]
        low, high = min([0.0, *known]), max([0.1, *known])
        most = max((len(values) for values in series.values()), default=1)
        step = (WIDTH - LEFT - 12) / max(1, most - 1)

        def x(stage: int) -> float:
            return round(LEFT + 6 + step * stage, 1)

        def y(value: float) -> float:
            return round(8 + (HEIGHT - 34) * (high - value) / (high - low), 1)

        lines = tuple(
            " ".join(f"{x(stage)},{y(value)}" for stage, value in enumerate(values) if not math.isnan(value))
            for values in series.values()
        )
        every = math.ceil(most / 16)
        ticks = [low + (high - low) * part / 4 for part in range(5)]
        return cls(
            label,
            lines,
            tuple((y(tick), f"{tick:.2f}") for tick in ticks),
            tuple((x(stage), str(stage)) for stage in range(0, most, every)),
        )


def render(template: str, **values: Any) -> str:
    """Return a page of this folder's template; it loads nothing from anywhere."""
    import jinja2  # imported late: most commands make no page

    def source(name: str) -> str:
        return resource("optimizer", "views", name).read_text(encoding="utf-8")

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, loader=jinja2.FunctionLoader(source)
    )
    environment.filters |= {"number": number, "signed": signed, "interval": with_interval, "count": count}
    environment.filters |= {"cost_cells": cost_cells, "clock": clock_text, "usd": usd_cell}
    environment.tests["known"] = lambda value: not math.isnan(value)
    return environment.get_template(template).render(style=source("page.css"), **values)


def changed_lines(before: str, after: str) -> list[tuple[str, str]]:
    """Return each line's kind, of ``DIFFERENCES``, and its text."""
    compared = difflib.ndiff(before.splitlines(), after.splitlines())
    return [(DIFFERENCES[line[:2]], line[2:]) for line in compared if line[:2] in DIFFERENCES]


def against(difference: Estimate) -> str:
    """Say in words what a paired difference means."""
    if math.isnan(difference.mean):
        return "has nothing to be paired with"
    if math.isnan(difference.low):
        return "has too few pairs for an interval"
    if difference.low == difference.high == 0:
        return "scores exactly the same"
    if difference.low > 0:
        return "scores better: the interval of the difference lies above zero"
    if difference.high < 0:
        return "scores worse: the interval of the difference lies below zero"
    return "cannot be told apart: the interval of the difference includes zero"
