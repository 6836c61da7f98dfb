"""Self-contained pages beside the report: one style sheet, and drawings that follow the reader's colours."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ...data.resources import resource
from ...env.statistics import Estimate
from .progress import clock_text
from .table import cost_cells, count, counted, number, signed, stored_cells, usd_cell, with_interval

if TYPE_CHECKING:
    import jinja2


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


@cache
def environment() -> jinja2.Environment:
    """Return where templates of this folder are rendered, with the ways to write figures.

    To translate the report's template takes as long as all of its text; each is translated once.
    """
    import jinja2  # imported late: most commands make no page

    pages = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, loader=jinja2.FunctionLoader(source)
    )
    pages.filters |= {"number": number, "signed": signed, "interval": with_interval, "count": count}
    pages.filters |= {
        "cost_cells": cost_cells,
        "clock": clock_text,
        "usd": usd_cell,
        "stored_cells": stored_cells,
        "counted": counted,
    }
    pages.tests["known"] = lambda value: not math.isnan(value)
    return pages


def source(name: str) -> str:
    """Return a file of this folder."""
    return resource("optimizer", "views", name).read_text(encoding="utf-8")


def render(template: str, **values: Any) -> str:
    """Return a page of this folder's template; it loads nothing from anywhere."""
    style = source("plots.css") + source("page.css")
    return environment().get_template(template).render(style=style, **values)


def against(difference: Estimate, *, verb: str = "scores") -> str:
    """Say in words what a paired difference means; what is higher ``verb`` better."""
    if math.isnan(difference.mean):
        return "has nothing to be paired with"
    if math.isnan(difference.low):
        return "has too few pairs for an interval"
    if difference.low == difference.high == 0:
        return f"{verb} exactly the same"
    if difference.low > 0:
        return f"{verb} better: the interval of the difference lies above zero"
    if difference.high < 0:
        return f"{verb} worse: the interval of the difference lies below zero"
    return "cannot be told apart: the interval of the difference includes zero"
