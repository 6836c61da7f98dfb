"""Which numbers of a policy were important in a search."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from ...policies.space import every_knob
from ..proposers.numbers import standing
from ..study import Trial, quiet_optuna

LEAST_TRIALS = 30
"""Trials below which nothing is said."""
LEAST_SHARE = 0.01
"""Importance below which a number is left out."""
BEST = 0.2
"""Share of the trials that count as good."""


def raced_numbers(trials: Sequence[Trial]) -> list[tuple[Trial, float]]:
    """Return the candidates that raced, with their scores as far as they went; each policy once."""
    first = {trial.policy: trial for trial in reversed(trials) if trial.series and trial.params}
    scores = [(trial, standing(trial, trials[0])) for trial in first.values()]
    return sorted(((t, score) for t, score in scores if not math.isnan(score)), key=lambda pair: pair[0].number)


def importances(trials: Sequence[Trial]) -> dict[str, float]:
    """Return how much numbers and structure have to do with being among the ``BEST``, by path, the most first.

    A number that only some structures have counts too. All share 1, of which those with less than ``LEAST_SHARE`` are
    left out. After PED-ANOVA, as Optuna has it. Empty with fewer than ``LEAST_TRIALS``, or where all are equal.
    """
    pairs = raced_numbers(trials)
    if len(pairs) < LEAST_TRIALS or len({score for _, score in pairs}) < len(pairs) * BEST:
        return {}
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    with quiet_optuna(), warnings.catch_warnings():
        # that few trials say little is said beside the plot
        warnings.filterwarnings("ignore", "Some regimes for parameter .* have less than", UserWarning)
        study = optuna.create_study(direction="maximize")
        study.add_trials(
            [
                optuna.create_trial(value=score, params=dict(trial.params), distributions=dict(trial.distributions))
                for trial, score in pairs
            ]
        )
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(target_quantile=BEST))
    paths = {knob.name: knob.path for knob in every_knob()}
    return {paths.get(name, name): share for name, share in found.items() if share >= LEAST_SHARE}
