"""The report's plots, as SVG text."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from ...env import Summary
from ...env.statistics import Estimate, estimate_repeated, nan_mean
from ...policies.files import WINDOW
from ..proposers.numbers import standing
from ..search.ablation import Variant
from ..search.front import Placed, front
from ..search.sealed import EVOLVED, SEED
from ..study import Trial
from .table import short

Rows = Mapping[str, Summary]
"""Evaluations by the policy's name."""

INK, FAINT, ACCENT = "#24292f", "#8c959f", "#0969da"
SHARES = {"accuracy": "#2da44e", "utilisation": "#bf8700", "read": "#fb8f44", "write": "#cf222e"}
LINES = {
    "window": "#8c959f",
    "native": "#57606a",
    "rag": "#bf8700",
    "awe": "#8250df",
    "awi": "#bf3989",
    SEED: INK,
    EVOLVED: ACCENT,
}
OTHER_LINES = ("#1b7c83", "#953800", "#6639ba", "#4d2d00")
LONGEST_NAME = 28
MOST_TICKS = 6
LABEL_PIXELS = 16
RELIABILITY_BINS = 15
STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mnemotune",
    "text.parse_math": False,
}


def scores_plot(rows: Rows, *, noun: str = "group") -> str:
    """Draw each policy's memory score with its 95% interval."""
    with mpl.rc_context(STYLE):
        figure, axes = _axes(7.2, 0.42 * len(rows) + 0.9)
        for y, (name, row) in enumerate(rows.items()):
            _draw_score(axes, row.memory_score, y, _color(name))
        axes.axvline(0, color=FAINT, linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(rows)), [short(name, LONGEST_NAME) for name in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(f"memory score (0 = floor, 1 = ceiling), 95% interval over {noun}s")
        return _svg(figure)


def shares_plot(rows: Rows) -> str:
    """Draw how each policy's answers divide into right ones and the three failure shares."""
    with mpl.rc_context(STYLE):
        figure, axes = _axes(7.2, 0.42 * len(rows) + 1.2)
        left = [0.0] * len(rows)
        for share, color in SHARES.items():
            parts = [{"accuracy": row.accuracy, **row.shares}[share] for row in rows.values()]
            widths = [0.0 if math.isnan(part) else part for part in parts]
            axes.barh(range(len(rows)), widths, left=left, color=color, label=share, height=0.62)
            for y, (start, width) in enumerate(zip(left, widths, strict=True)):
                if width > 0.04:
                    text = f"{width:.2f}"
                    axes.text(start + width / 2, y, text, ha="center", va="center", color="white", fontsize=9)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(rows)), [short(name, LONGEST_NAME) for name in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of answers")
        axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return _svg(figure)


def stages_plot(rows: Rows, *, stage_noun: str = "stage") -> str:
    """Draw each policy's memory score stage by stage."""
    with mpl.rc_context(STYLE):
        figure, axes = _axes(7.2, 3.6)
        others = iter(OTHER_LINES * len(rows))
        for name, row in rows.items():
            series = row.stages["memory_score"]
            strong = name in {SEED, EVOLVED}
            color = LINES.get(name) or next(others)
            axes.plot(
                range(len(series)),
                series,
                label=short(name, LONGEST_NAME),
                color=color,
                linewidth=2.4 if strong else 1.2,
            )
        axes.axhline(0, color=FAINT, linewidth=0.8, linestyle=":")
        axes.set_xlabel(stage_noun)
        axes.set_ylabel("memory score")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return _svg(figure)


def search_plot(trials: Sequence[Trial], *, noun: str = "group") -> str:
    """Draw every trial's memory score on the train groups, and the best policy's on the validation groups."""
    with mpl.rc_context(STYLE):
        figure, axes = _axes(7.2, 3.4)
        groups: dict[tuple[str, str, str], dict[int, float]] = {
            ("raced", FAINT, "o"): {t.number: t.score for t in trials if t.finished_race and not t.accepted},
            ("lost the race early", FAINT, "x"): {
                t.number: standing(t, trials[0]) for t in trials if t.series and not t.finished_race
            },
            ("accepted", ACCENT, "o"): {t.number: t.score for t in trials if t.accepted},
        }
        for (label, color, marker), group in groups.items():
            if group:
                axes.plot([*group], [*group.values()], marker, color=color, label=label, markersize=5)
        steps = list(_best_so_far(trials))
        if steps:
            axes.step(
                range(len(steps)),
                steps,
                where="post",
                color=ACCENT,
                linewidth=1.6,
                label=f"best so far, validation {noun}s",
            )
        axes.set_xlabel("trial")
        axes.set_ylabel("memory score")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
        return _svg(figure)


def variants_plot(variants: Sequence[Variant]) -> str:
    """Draw each variant's memory score, with a faint point for each search, and its difference from the first."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 0.42 * len(variants) + 1.0), layout="constrained")
        scores, differences = figure.subplots(1, 2, sharey=True)
        for y, variant in enumerate(variants):
            color = INK if variant.difference is None else ACCENT
            known = [search.mean for search in variant.searches if not math.isnan(search.mean)]
            scores.plot(known, [y + 0.25] * len(known), "o", color=FAINT, markersize=3)
            _draw_score(scores, variant.score, y, color)
            if variant.difference is not None:
                _draw_score(differences, variant.difference, y, color)
        windows = [estimate_repeated([search.window for search in variant.searches]).mean for variant in variants]
        window = nan_mean(windows)
        if max(windows) - min(windows) < 1e-9:  # variants with models of their own have windows of their own
            scores.axvline(window, color=FAINT, linewidth=0.8, linestyle="--")
            scores.annotate(WINDOW, (window, 1), (2, 2), ("data", "axes fraction"), "offset points", color=FAINT)
        differences.axvline(0, color=FAINT, linewidth=0.8, linestyle=":")
        names = [fill(short(variant.name, 2 * LONGEST_NAME), LONGEST_NAME) for variant in variants]
        scores.set_yticks(range(len(variants)), names)
        scores.set_ylim(len(variants) - 0.4, -0.6)
        scores.set_xlabel("memory score, 95% interval; grey: each search")
        for axes in (scores, differences):
            axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS))
        differences.set_xlabel(f"difference from {short(variants[0].name, LONGEST_NAME)}, 95% interval")
        return _svg(figure)


def reliability_plot(p_safe: NDArray[np.float64], harmful: NDArray[np.bool_]) -> str:
    """Draw how often writes are SAFE against P(safe), in bins of one size, over where the scores lie."""
    known = ~np.isnan(p_safe)
    order = np.flatnonzero(known)[np.argsort(p_safe[known], kind="stable")]
    bins = [members for members in np.array_split(order, min(RELIABILITY_BINS, len(order))) if len(members)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.8, 4.8), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        above.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, linestyle=":")
        said, are = ([float(values[members].mean()) for members in bins] for values in (p_safe, ~harmful))
        above.plot(said, are, marker="o", markersize=4, color=ACCENT)
        above.set_ylabel("share of SAFE")
        above.set_ylim(-0.03, 1.03)
        below.hist(p_safe[known], bins=np.linspace(0, 1, 21), color=FAINT)
        below.set_xlabel("P(safe)")
        below.set_ylabel("writes")
        return _svg(figure)


def _draw_score(axes: Axes, score: Estimate, y: float, color: str) -> None:
    """Draw a score with its interval, where there is one."""
    if math.isnan(score.mean):
        return
    if not math.isnan(score.low):
        axes.plot([score.low, score.high], [y, y], color=color, linewidth=2)
    axes.plot([score.mean], [y], "o", color=color)


def front_plot(places: Sequence[Placed], best: Trial, *, noun: str = "group") -> str:
    """Draw each raced policy's memory score on the train groups against its tokens a turn, and the front."""
    with mpl.rc_context(STYLE):
        figure, axes = _axes(7.2, 3.4)
        line = front(places)
        axes.plot([p.cost for p in places], [p.score for p in places], "o", color=FAINT, markersize=4, label="raced")
        axes.step(
            [p.cost for p in line], [p.score for p in line], "o-", where="post", color=INK, markersize=5, label="front"
        )
        marks = {"seed": (INK, "s", [p for p in places if p.trial.number == 0])}
        marks["evolved"] = (ACCENT, "D", [p for p in places if p.trial.policy == best.policy and p.trial.number])
        for name, (color, marker, marked) in marks.items():
            if marked:
                axes.plot([p.cost for p in marked], [p.score for p in marked], marker, color=color, label=name)
        if places:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.xaxis.set_minor_locator(NullLocator())
            low, high = min(p.cost for p in places), max(p.cost for p in places)
            axes.set_xlim(low / 1.5, high * 1.5)
            axes.margins(y=0.15)
        for group in _neighbours(line, axes):
            numbers, last = ", ".join(str(p.trial.number) for p in group), group[-1]
            axes.annotate(numbers, (last.cost, last.score), (0, 7), textcoords="offset points", ha="center")
        axes.set_xlabel("tokens a turn")
        axes.set_ylabel(f"memory score, train {noun}s")
        axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
        return _svg(figure)


def _neighbours(line: Sequence[Placed], axes: Axes) -> list[list[Placed]]:
    """Group places that are so near each other on the drawing that their labels would overlap."""
    groups: list[list[Placed]] = []
    for place in line:
        if groups:
            there, here = axes.transData.transform([(p.cost, p.score) for p in (groups[-1][-1], place)])
            if max(abs(there - here)) < LABEL_PIXELS:
                groups[-1].append(place)
                continue
        groups.append([place])
    return groups


def _best_so_far(trials: Sequence[Trial]) -> Iterator[float]:
    best = math.nan
    for trial in trials:
        if trial.accepted:
            best = nan_mean(list(trial.validation.values()))
        yield best


def _color(name: str) -> str:
    return ACCENT if name == EVOLVED else INK if name == SEED else FAINT


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _svg(figure: Figure) -> str:
    """Return the drawing as an inline SVG element, the same bytes for the same data."""
    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
