"""The pictures of a run's report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..search.front import placed
from ..search.outcome import Outcome
from ..study import Trial
from .importance import importances


def pictures_of(outcome: Outcome, best: Trial | None) -> dict[str, str]:
    """Return the pictures that a run has something for, by name."""
    from . import plots, search_plots  # imported late: Vega-Lite's JavaScript engine is loaded with them
    from .vega import picture

    track, trials, rows = outcome.track, outcome.study.trials, outcome.test.rows
    compared = outcome.config.search.aim.compared
    named: dict[str, tuple[str, Callable[..., str]]] = {}
    if rows:
        named |= {
            "scores": ("Memory score of each policy", partial(plots.scores_plot, rows, noun=track.noun)),
            "shares": ("Right answers and failures of each policy", partial(plots.shares_plot, rows)),
            "stages": (
                f"Memory score by {track.stage_noun}",
                partial(plots.stages_plot, rows, stage_noun=track.stage_noun),
            ),
        }
    if best is not None:
        places = placed(trials)
        named |= {
            "search": (
                "Score of each trial",
                partial(search_plots.search_plot, trials, best=best, noun=track.noun, compared=compared),
            ),
            "spend": ("Tokens by role", partial(search_plots.spend_plot, trials)),
            "front": (
                "Score against tokens",
                partial(search_plots.front_plot, places, best, noun=track.noun, compared=compared),
            ),
        }
    if shares := importances(trials):
        named["importance"] = ("Importance of numbers", partial(search_plots.importance_plot, shares))
    return {key: picture(draw, name=name) for key, (name, draw) in named.items()}
