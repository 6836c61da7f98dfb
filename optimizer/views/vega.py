"""How plots are drawn: Vega-Lite's layers, rendered as SVG text without a browser.

A mark says in its ``aria-label`` what it stands for, which a page shows to who points at it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

import vl_convert

from ...env.statistics import Estimate
from .table import short

Layer = dict[str, Any]

WIDE, NARROW = 760, 340
"""Pixels of a picture on a large screen and on paper, and on a phone."""
INK, FAINT, LINE = "var(--ink, #24292f)", "var(--faint, #57606a)", "var(--line, #d0d7de)"
ACCENT, GOOD, WARN, BAD = "var(--accent, #0969da)", "var(--go, #1a7f37)", "var(--hold, #9a6700)", "var(--stop, #cf222e)"
"""A page has its own colours for the dark; where a picture stands alone, these are those of a light page."""
LONGEST_NAME, LONGEST_NAME_NARROW = 28, 14
ROW_PIXELS = 30
LINE_PIXELS = 14
"""Of a label of several lines."""
MANY = 100
"""Marks of a plot from which on they are small."""
WIDEST_LETTER = 8
"""Pixels of a letter on average in the widest font that a browser may have."""
CONFIG = {
    "background": None,
    "font": "Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "aria": False,
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "gridColor": LINE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {
        "aria": False,
        "orient": "top",
        "title": None,
        "labelColor": INK,
        "labelFontSize": 12,
        "symbolStrokeWidth": 2,
        "columnPadding": 24,
    },
}
TIP = {"field": "tip", "type": "nominal"}


def picture(draw: Callable[..., str], *, name: str) -> str:
    """Return what draws a plot of some width as two pictures for a page, which shows the one that fits."""
    return "".join(
        draw(width=width).replace('class="marks"', f'class="{kind}" role="img" aria-label="{escape(name)}"', 1)
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )


def drawn(layers: Sequence[Layer], width: int, height: int) -> str:
    """Return layers on the same axes, in pixels with all their words."""
    fit = {"type": "fit", "contains": "padding"}
    return rendered({"layer": list(layers), "width": width, "height": height, "autosize": fit, "padding": 4})


def rendered(spec: Mapping[str, Any]) -> str:
    """Return an inline SVG element, the same bytes for the same spec."""
    svg: str = vl_convert.vegalite_to_svg({"config": CONFIG, **spec}, vl_version="6.4")
    return svg


def layer(values: Sequence[Layer], mark: Layer, **encoding: Layer) -> Layer:
    """Return a layer of marks, one a value."""
    return {"data": {"values": list(values)}, "mark": mark, "encoding": encoding}


def rule(
    values: Sequence[Layer],
    color: str,
    at: Mapping[str, Layer],
    *,
    dash: Sequence[int] = (),
    thick: float = 1,
    opacity: float = 1,
) -> Layer:
    """Return a layer of lines, which say nothing."""
    look = {"color": color, "strokeWidth": thick, "opacity": opacity, "strokeDash": list(dash)}
    return layer(values, {"type": "rule", "aria": False, **look}, **at)


def points_of(values: Sequence[Layer], kinds: Mapping[str, tuple[str, str]], *, columns: int, **at: Layer) -> Layer:
    """Return a layer of points, of which the legend names the kinds that there are."""
    there = [kind for kind in kinds if any(value["what"] == kind for value in values)]
    color, shape = (
        {"field": "what", "type": "nominal", "legend": {"columns": columns}}
        | {"scale": {"domain": there, "range": [kinds[kind][look] for kind in there]}}
        for look in (0, 1)
    )
    mark = {"type": "point", "filled": True, "size": 60 if len(values) < MANY else 25, "opacity": 0.95}
    return layer(values, mark, **at, color=color, shape=shape, description=TIP)


def measure(field: str, *, title: str | Sequence[str] | None = None, **options: Any) -> Layer:
    """Return an axis of numbers."""
    return {"field": field, "type": "quantitative", "title": title, **options}


def row_axis(names: Collection[str], width: int) -> Layer:
    """Return the axis of rows; a long name keeps its end, where a path says most."""
    most = LONGEST_NAME_NARROW if width < WIDE else LONGEST_NAME
    longest = min(max(map(len, names), default=0), most)
    labels = {name: short(name, most) for name in names}
    if len({*labels.values()}) < len(labels):
        labels = {name: f"{place} {short(name, most - 3)}" for place, name in enumerate(names, 1)}
    shown = f"({json.dumps(labels)})[datum.label]"
    axis = {"title": None, "grid": False, "labelLimit": 0, "labelExpr": shown, "labelPadding": 6}
    axis |= {"minExtent": WIDEST_LETTER * longest + 12}
    return {"field": "policy", "type": "nominal", "sort": None, "scale": {"domain": [*names]}, "axis": axis}


def scores_of(values: Sequence[Layer], y: Layer, title: str) -> list[Layer]:
    """Return the layers of scores with their intervals, one a row."""
    color = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    ends = {"x": measure("low", title=title), "x2": {"field": "high"}, "y": y, "color": color}
    whole = [value for value in values if value["low"] is not None]
    point = {"type": "point", "filled": True, "size": 80, "opacity": 1}
    return [
        layer(whole, {"type": "rule", "strokeWidth": 2.5}, **ends, description=TIP),
        layer(values, point, x=measure("mean", title=title), y=y, color=color, description=TIP),
    ]


def ends_of(score: Estimate) -> Layer:
    """Return a score with its interval as values of a mark."""
    return {"mean": known(score.mean), "low": known(score.low), "high": known(score.high)}


def known(value: float) -> float | None:
    """Return a number; None, which is not drawn, for NaN."""
    return None if math.isnan(value) else value


def cut(text: str, width: int) -> str:
    """Return an expression that keeps the end of a long text."""
    longest = LONGEST_NAME_NARROW if width < WIDE else LONGEST_NAME
    return f"truncate({text}, {longest}, 'left', '\u2026')"


def lines_of(name: str) -> list[str]:
    """Return a long name in lines."""
    return wrap(short(name, 2 * LONGEST_NAME), LONGEST_NAME) or [name]


def in_lines(names: Sequence[str]) -> str:
    """Return an expression that gives a long name in lines."""
    return f"({json.dumps({name: lines_of(name) for name in names})})[datum.label]"


def wrapped(text: str) -> list[str]:
    """Return a title in lines."""
    return wrap(text, LONGEST_NAME)
