"""The embedded model beside a published one: seven arms, their accuracy, memory score and failure shares by period.

python -m mnemotune.experiments.embedded_model.calibration [DATA] [FIGURE.svg]
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from typer import Argument

from ...data.cores import usable_cores
from ..command import run
from .arms import MEASURES, Arm, misses, published, run_all

TITLES = {
    "native": "native",
    "rag": "RAG-(2,4,30)",
    "awe": "AWE-(2,4,30)",
    "awi": "AWI-(2,4)",
    "awe-2-0-30": "AWE-(2,0,30)",
    "awe-2-8-30": "AWE-(2,8,30)",
    "awe-2-4-10": "AWE-(2,4,10)",
    "accuracy": "accuracy",
    "memory_score": "memory score",
    "write": "write failures",
    "read": "read failures",
    "utilisation": "utilisation failures",
}
PUBLISHED_UPPER_BOUND = 0.917
COLOURS = {"native": "#4c566a", "rag": "#c4751b", "awe": "#2a7f62", "awi": "#7a4fa3"}
"""Of the arms that are drawn."""


def table(arms: Mapping[str, Arm]) -> str:
    """Return a Markdown table of means, the published ones in brackets."""
    columns = ("arm", *(TITLES[measure] for measure in MEASURES), "period 0", "last period", "upper bound", "seconds")
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for name, arm in arms.items():
        there = published()[name]
        cells = [f"{arm.mean(m):.3f} ({there.mean(m):.3f})" for m in MEASURES]
        accuracy, expected = arm.series["accuracy"], there.series["accuracy"]
        cells += [f"{accuracy[i]:.3f} ({expected[i]:.3f})" for i in (0, -1)]
        cells += [f"{arm.upper_bound:.3f} ({PUBLISHED_UPPER_BOUND})", f"{arm.seconds:.1f}"]
        lines.append(f"| {TITLES[name]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def figure(arms: Mapping[str, Arm]) -> Figure:
    """Return a row of plots, one a measure: solid is the embedded model, dashed the published one."""
    drawn = Figure(figsize=(15, 3.6), layout="constrained")
    plots = drawn.subplots(1, len(MEASURES))
    for axes, measure in zip(plots, MEASURES, strict=True):
        for name in COLOURS:
            ours, there = arms[name].series[measure], published()[name].series[measure]
            axes.plot(range(len(ours)), ours, color=COLOURS[name], label=TITLES[name])
            axes.plot(range(len(there)), there, color=COLOURS[name], linestyle=(0, (3, 2)), linewidth=1, alpha=0.7)
        axes.set_title(TITLES[measure], fontsize=10)
        axes.set_xlabel("period", fontsize=9)
        axes.set_ylim(-0.05, 0.85)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    plots[0].legend(fontsize=8, frameon=False)
    drawn.suptitle("the embedded model's first reader (solid) and gpt-4.1-mini as published (dashed)", fontsize=10)
    return drawn


def main(
    data: Annotated[str, Argument(help="The users.")] = "base",
    picture: Annotated[
        Path | None, Argument(metavar="[FIGURE.svg]", help="Where to draw it; without, nowhere.")
    ] = None,
) -> None:
    """Print the table and what misses its bar; draw the figure."""
    with ProcessPoolExecutor(usable_cores()) as executor:
        arms = run_all(data, executor)
    print(table(arms))
    for miss in misses(arms):
        print(f"- {miss}")
    if picture is not None:
        FigureCanvasSVG(figure(arms)).print_svg(str(picture), metadata={"Date": None})


if __name__ == "__main__":
    run(main)
