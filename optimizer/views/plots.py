"""The report's plots, as SVG text."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from textwrap import fill
from typing import ParamSpec

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

P = ParamSpec("P")
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


def _as_svg(draw: Callable[P, Figure]) -> Callable[P, str]:
    """Return what draws a figure as an inline SVG element, the same bytes for the same data."""

    @wraps(draw)
    def drawn(*arguments: P.args, **options: P.kwargs) -> str:
        file = io.StringIO()
        with mpl.rc_context(STYLE):
            FigureCanvasSVG(draw(*arguments, **options)).print_svg(file, metadata={"Date": None, "Creator": None})
        text = file.getvalue()
        return text[text.index("<svg") :]

    return drawn


@_as_svg
def scores_plot(rows: Rows, *, noun: str = "group") -> Figure:
    """Draw each policy's memory score with its 95% interval."""
    figure, axes = _axes(7.2, 0.42 * len(rows) + 0.9)
    for y, (name, row) in enumerate(rows.items()):
        _draw_score(axes, row.memory_score, y, ACCENT if name == EVOLVED else INK if name == SEED else FAINT)
    axes.axvline(0, color=FAINT, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), [short(name, LONGEST_NAME) for name in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(f"memory score (0 = floor, 1 = ceiling), 95% interval over {noun}s")
    return figure


@_as_svg
def shares_plot(rows: Rows) -> Figure:
    """Draw how each policy's answers divide into right ones and the three failure shares."""
    figure, axes = _axes(7.2, 0.42 * len(rows) + 1.2)
    left = np.zeros(len(rows))
    for share, color in SHARES.items():
        widths = np.nan_to_num([{"accuracy": row.accuracy, **row.shares}[share] for row in rows.values()])
        bars = axes.barh(range(len(rows)), widths, left=left, color=color, label=share, height=0.62)
        texts = [f"{width:.2f}" if width > 0.04 else "" for width in widths]
        axes.bar_label(bars, texts, label_type="center", color="white", fontsize=9)
        left = left + widths
    axes.set_yticks(range(len(rows)), [short(name, LONGEST_NAME) for name in rows])
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1), xlabel="share of answers")
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


@_as_svg
def stages_plot(rows: Rows, *, stage_noun: str = "stage") -> Figure:
    """Draw each policy's memory score stage by stage."""
    figure, axes = _axes(7.2, 3.6)
    others = iter(OTHER_LINES * len(rows))
    for name, row in rows.items():
        series, width = row.stages["memory_score"], 2.4 if name in {SEED, EVOLVED} else 1.2
        color = LINES.get(name) or next(others)
        axes.plot(range(len(series)), series, label=short(name, LONGEST_NAME), color=color, linewidth=width)
    axes.axhline(0, color=FAINT, linewidth=0.8, linestyle=":")
    axes.set(xlabel=stage_noun, ylabel="memory score")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@_as_svg
def search_plot(trials: Sequence[Trial], *, noun: str = "group", compared: str = "memory score") -> Figure:
    """Draw what every trial is compared by on the train groups, and the best policy's on the validation groups."""
    figure, axes = _axes(7.2, 3.4)
    raced = {t.number: t.score for t in trials if t.finished_race and not t.accepted}
    lost = {t.number: standing(t, trials[0]) for t in trials if t.series and not t.finished_race}
    accepted = {t.number: t.score for t in trials if t.accepted}
    for label, color, marker, scores in (
        ("raced", FAINT, "o", raced),
        ("lost the race early", FAINT, "x", lost),
        ("accepted", ACCENT, "o", accepted),
    ):
        if scores:
            axes.plot([*scores], [*scores.values()], marker, color=color, label=label, markersize=5)
    steps, label = list(_best_so_far(trials)), f"best so far, validation {noun}s"
    if steps:
        axes.step(range(len(steps)), steps, where="post", color=ACCENT, linewidth=1.6, label=label)
    axes.set(xlabel="trial", ylabel=compared)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
    return figure


@_as_svg
def variants_plot(variants: Sequence[Variant]) -> Figure:
    """Draw each variant's memory score, with a faint point for each search, and its difference from the first."""
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
    scores.set(ylim=(len(variants) - 0.4, -0.6), xlabel="memory score, 95% interval; grey: each search")
    for axes in (scores, differences):
        axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS))
    differences.set_xlabel(f"difference from {short(variants[0].name, LONGEST_NAME)}, 95% interval")
    return figure


@_as_svg
def reliability_plot(p_safe: NDArray[np.float64], harmful: NDArray[np.bool_]) -> Figure:
    """Draw how often writes are SAFE against P(safe), in bins of one size, over where the scores lie."""
    known = ~np.isnan(p_safe)
    order = np.flatnonzero(known)[np.argsort(p_safe[known], kind="stable")]
    bins = [members for members in np.array_split(order, min(RELIABILITY_BINS, len(order))) if len(members)]
    figure = Figure(figsize=(4.8, 4.8), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    above.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, linestyle=":")
    said, are = ([float(values[members].mean()) for members in bins] for values in (p_safe, ~harmful))
    above.plot(said, are, marker="o", markersize=4, color=ACCENT)
    above.set(ylabel="share of SAFE", ylim=(-0.03, 1.03))
    below.hist(p_safe[known], bins=np.linspace(0, 1, 21), color=FAINT)
    below.set(xlabel="P(safe)", ylabel="writes")
    return figure


@_as_svg
def front_plot(places: Sequence[Placed], best: Trial, *, noun: str = "group", compared: str = "memory score") -> Figure:
    """Draw what each raced policy is compared by, on the train groups, against its tokens a turn, and the front."""
    figure, axes = _axes(7.2, 3.4)
    line = front(places)
    costs, scores = [p.cost for p in line], [p.score for p in line]
    axes.plot([p.cost for p in places], [p.score for p in places], "o", color=FAINT, markersize=4, label="raced")
    axes.step(costs, scores, "o-", where="post", color=INK, markersize=5, label="front")
    seed = [p for p in places if p.trial.number == 0]
    evolved = [p for p in places if p.trial.policy == best.policy and p.trial.number]
    for label, color, marker, marked in (("seed", INK, "s", seed), ("evolved", ACCENT, "D", evolved)):
        if marked:
            axes.plot([p.cost for p in marked], [p.score for p in marked], marker, color=color, label=label)
    if places:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(min(p.cost for p in places) / 1.5, max(p.cost for p in places) * 1.5)
        axes.margins(y=0.15)
        for group in _neighbours(line, axes):
            numbers, last = ", ".join(str(p.trial.number) for p in group), group[-1]
            axes.annotate(numbers, (last.cost, last.score), (0, 7), textcoords="offset points", ha="center")
    axes.set(xlabel="tokens a turn", ylabel=f"{compared}, train {noun}s")
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
    return figure


def _neighbours(line: Sequence[Placed], axes: Axes) -> list[list[Placed]]:
    """Group places that are so near each other on the drawing that their labels would overlap."""
    points = axes.transData.transform([(p.cost, p.score) for p in line])
    apart = np.abs(np.diff(points, axis=0)).max(axis=1) >= LABEL_PIXELS
    starts = [0, *(np.flatnonzero(apart) + 1), len(line)]
    return [list(line[start:end]) for start, end in pairwise(starts)]


def _best_so_far(trials: Sequence[Trial]) -> Iterator[float]:
    best = math.nan
    for trial in trials:
        if trial.accepted:
            best = nan_mean(list(trial.validation.values()))
        yield best


def _draw_score(axes: Axes, score: Estimate, y: float, color: str) -> None:
    """Draw a score with its interval, where there is one."""
    if math.isnan(score.mean):
        return
    if not math.isnan(score.low):
        axes.plot([score.low, score.high], [y, y], color=color, linewidth=2)
    axes.plot([score.mean], [y], "o", color=color)


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()
