"""The plots of scores: of a sealed test, of an ablation, and of a reward model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...env import Summary
from ...env.statistics import estimate_repeated, nan_mean
from ...policies.files import WINDOW
from ..search.ablation import Variant
from ..search.sealed import EVOLVED, SEED
from .table import number, short, with_interval
from .vega import (
    ACCENT,
    CONFIG,
    FAINT,
    INK,
    LINE_PIXELS,
    LONGEST_NAME,
    LONGEST_NAME_NARROW,
    ROW_PIXELS,
    TIP,
    WIDE,
    WIDEST_LETTER,
    cut,
    drawn,
    ends_of,
    in_lines,
    known,
    layer,
    lines_of,
    measure,
    rendered,
    row_axis,
    rule,
    scores_of,
)

Rows = Mapping[str, Summary]
"""Evaluations by the policy's name."""
SHARES = {"accuracy": "#1a7f37", "utilisation": "#7d4e00", "read": "#bc4c00", "write": "#cf222e"}
"""White letters can be read on all of them."""
LINES = {WINDOW: "#8c959f", "native": "#6e7781", "rag": "#bf8700", "awe": "#8250df", "awi": "#bf3989"}
LINES |= {SEED: INK, EVOLVED: ACCENT}
OTHER_LINES = tuple(
    f"var(--line-{i}, {colour})"
    for i, colour in enumerate(("#1b7c83", "#953800", "#6639ba", "#7d6a10", "#bf3989", "#57606a"))
)
LEAST_TEXT_PIXELS = 26
RELIABILITY_BINS = 15
SHARE_WORDS = {
    "accuracy": "are right",
    "utilisation": "are lost when memory is used",
    "read": "are lost when memory is read",
    "write": "are lost when memory is written",
}


def scores_plot(rows: Rows, *, noun: str = "group", width: int = WIDE) -> str:
    """Draw each policy's memory score with its 95% interval."""
    values = [
        {"policy": name, "colour": ACCENT if name == EVOLVED else INK if name == SEED else FAINT}
        | ends_of(row.memory_score)
        | {"tip": f"{name}: memory score {with_interval(row.memory_score)}\n{row.memory_score.users} {noun}s"}
        for name, row in rows.items()
    ]
    title = "memory score, 95% interval" if width < WIDE else f"memory score (0 = floor, 1 = ceiling), 95% over {noun}s"
    zero = rule([{"x": 0}], FAINT, {"x": measure("x", title=title, axis={"tickCount": 6})}, dash=[2, 3])
    return drawn([zero, *scores_of(values, row_axis(rows, width), title)], width, ROW_PIXELS * len(rows) + 60)


def shares_plot(rows: Rows, *, width: int = WIDE) -> str:
    """Draw how each policy's answers divide into right ones and the three failure shares."""
    values = [
        {"policy": name, "share": share, "start": start, "end": end, "middle": (start + end) / 2}
        | {"tip": f"{name}: {number(end - start)} of answers {SHARE_WORDS[share]}", "text": _in_bar(end - start, width)}
        for name, row in rows.items()
        for share, start, end in _stacked({"accuracy": row.accuracy, **row.shares})
    ]
    y = row_axis(rows, width)
    color = {"field": "share", "type": "nominal", "scale": {"domain": [*SHARES], "range": [*SHARES.values()]}}
    legend = {"columns": 2 if width < WIDE else 4, "symbolType": "square"}
    x = measure("start", title="share of answers", scale={"domain": [0, 1]}, axis={"tickCount": 5})
    bars = {"x": x, "x2": {"field": "end"}, "y": y, "color": {**color, "legend": legend}, "description": TIP}
    texts = {"x": x | {"field": "middle"}, "y": y, "text": {"field": "text"}}
    layers = [
        layer(values, {"type": "bar", "height": {"band": 0.7}}, **bars),
        layer(values, {"type": "text", "color": "white", "fontSize": 12, "aria": False}, **texts),
    ]
    return drawn(layers, width, ROW_PIXELS * len(rows) + (105 if width < WIDE else 85))


def stages_plot(rows: Rows, *, stage_noun: str = "stage", width: int = WIDE) -> str:
    """Draw each policy's memory score stage by stage, the first of which is 1."""
    others = iter(OTHER_LINES * len(rows))
    colours = {name: LINES.get(name) or next(others) for name in rows}
    values = [
        {"policy": name, "x": stage, "y": known(score), "weight": 3 if name in {SEED, EVOLVED} else 1.5}
        | {"tip": f"{name}, {stage_noun} {stage}: memory score {number(score)}"}
        for name, row in rows.items()
        for stage, score in enumerate(row.stages["memory_score"], 1)
    ]
    label = cut("datum.label", width)
    legend = {"columns": 3 if width < WIDE else 6, "symbolType": "stroke", "labelExpr": label, "labelLimit": 0}
    scale = {"domain": [*colours], "range": [*colours.values()]}
    color = {"field": "policy", "type": "nominal", "scale": scale, "legend": legend}
    x = measure("x", title=stage_noun, axis={"tickMinStep": 1, "format": "d", "grid": False}, scale={"zero": False})
    at = {"x": x, "y": measure("y", title="memory score"), "color": color}
    size = {"field": "weight", "type": "quantitative", "scale": None, "legend": None}
    layers = [
        rule([{"y": 0}], FAINT, {"y": at["y"]}, dash=[2, 3]),
        layer(values, {"type": "line", "aria": False}, **at, strokeWidth=size),
        layer(values, {"type": "point", "filled": True, "size": 36, "opacity": 1}, **at, description=TIP),
    ]
    return drawn(layers, width, 300)


FEW_TICKS = {"axisXQuantitative": {"tickCount": 5}}
"""So few that labels of three digits stay apart."""


def variants_plot(variants: Sequence[Variant]) -> str:
    """Draw each variant's memory score, with a faint point for each search, and its difference from the first."""
    names = [*dict.fromkeys(variant.name for variant in variants)]
    rows = [
        {
            "policy": v.name,
            "colour": INK if v.score.difference is None else ACCENT,
            "tip": f"{v.name}: {with_interval(v.score.estimate)}",
        }
        | ends_of(v.score.estimate)
        for v in variants
    ]
    searches = [
        {"policy": variant.name, "x": search.mean}
        for variant in variants
        for search in variant.searches
        if not math.isnan(search.mean)
    ]
    differences = [
        {"policy": v.name, "colour": ACCENT, "tip": f"{v.name}: {with_interval(difference)}"} | ends_of(difference)
        for v in variants
        if (difference := v.score.difference) is not None
    ]
    windows = [estimate_repeated([search.window for search in variant.searches]).mean for variant in variants]
    window = nan_mean(windows)
    shared = max(windows) - min(windows) < 1e-9  # variants with models of their own have windows of their own
    y = row_axis(names, WIDE)
    y["axis"]["labelExpr"] = in_lines(names)
    bare = y | {"axis": {"title": None, "grid": False, "labels": False, "ticks": False}}
    lines = max((len(lines_of(name)) for name in names), default=1)
    height = max(ROW_PIXELS + 6, LINE_PIXELS * lines + 6) * len(variants)
    small = {"type": "point", "filled": True, "size": 12, "color": FAINT, "yOffset": 9, "aria": False, "opacity": 1}
    title = "memory score, 95% interval; grey: each search"
    left = [layer(searches, small, x=measure("x", title=title), y=y)]
    if shared:
        word = {"type": "text", "color": FAINT, "align": "left", "dx": 3, "y": -6, "fontSize": 11, "aria": False}
        left += [rule([{"x": window}], FAINT, {"x": measure("x", title=title)}, dash=[5, 3])]
        left += [layer([{"x": window}], word, x=measure("x", title=title), text={"value": WINDOW})]
    left += scores_of(rows, y, title)
    title = f"difference from {short(names[0], LONGEST_NAME)}, 95% interval"
    right = [
        rule([{"x": 0}], FAINT, {"x": measure("x", title=title)}, dash=[2, 3]),
        *scores_of(differences, bare, title),
    ]
    beside = [{"layer": layers, "width": 330, "height": height} for layers in (left, right)]
    return rendered({"hconcat": beside, "config": CONFIG | FEW_TICKS})


def reliability_plot(p_safe: NDArray[np.float64], harmful: NDArray[np.bool_]) -> str:
    """Draw how often writes are SAFE against P(safe), in bins of one size, over where the scores lie."""
    known = ~np.isnan(p_safe)
    order = np.flatnonzero(known)[np.argsort(p_safe[known], kind="stable")]
    bins = [members for members in np.array_split(order, min(RELIABILITY_BINS, len(order))) if len(members)]
    points = [
        {"x": x, "y": y, "tip": f"P(safe) {number(x)}: {number(y)} of {len(members)} writes are SAFE"}
        for members in bins
        for x, y in [(float(p_safe[members].mean()), float((~harmful)[members].mean()))]
    ]
    counts, edges = np.histogram(p_safe[known], bins=np.linspace(0, 1, 21))
    bars = [
        {
            "x": float(low),
            "x2": float(high),
            "y": int(count),
            "tip": f"{count:,} writes, P(safe) {low:.2f} to {high:.2f}",
        }
        for count, (low, high) in zip(counts, pairwise(edges), strict=True)
    ]
    x, whole = measure("x", scale={"domain": [0, 1]}), {"domain": [0, 1]}
    at = {"x": x | {"title": None}, "y": measure("y", title="share of SAFE", scale=whole)}
    diagonal = {**at, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
    dot = {"type": "point", "filled": True, "color": ACCENT, "size": 40, "opacity": 1}
    above = [
        rule([{"x": 0, "y": 0, "x2": 1, "y2": 1}], FAINT, diagonal, dash=[2, 3]),
        layer(points, {"type": "line", "color": ACCENT, "aria": False}, **at),
        layer(points, dot, **at, description=TIP),
    ]
    columns = {
        "x": x | {"title": "P(safe)"},
        "x2": {"field": "x2"},
        "y": measure("y", title="writes"),
        "y2": {"datum": 0},
    }
    below = [layer(bars, {"type": "bar", "color": FAINT}, **columns, description=TIP)]
    parts = [{"layer": layers, "width": 400, "height": height} for layers, height in ((above, 300), (below, 75))]
    return rendered({"vconcat": parts})


def _stacked(shares: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
    """Yield where the bar of each share starts and ends."""
    start = 0.0
    for share in SHARES:
        end = start + (0.0 if math.isnan(shares[share]) else shares[share])
        yield share, start, end
        start = end


def _in_bar(share: float, width: int) -> str:
    """Return what is written into a bar that is wide enough for it."""
    names = WIDEST_LETTER * (LONGEST_NAME_NARROW if width < WIDE else LONGEST_NAME)
    return f"{share:.2f}" if share * (width - names) > LEAST_TEXT_PIXELS else ""
