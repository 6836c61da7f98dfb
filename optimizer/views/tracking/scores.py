"""Scores that no search is behind, as runs of MLflow: of one policy, and of the variants of an ablation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....env import Summary
from ....policies.policy import MemoryPolicy
from ...config import Config
from ...search.ablation import Variant, slug
from ...stores import Tracking, default_uri
from ..table import over_window
from .figures import known, policy_params, tested_metrics, with_interval
from .store import logged_run


def log_evaluation(
    uri: str, policy: MemoryPolicy, rows: Mapping[str, Summary], name: str, *, about: Mapping[str, Any]
) -> None:
    """Log how the policy of a row scored, as a run of its name. Raises what ``logged_run`` does."""
    params = {key: value for key, value in about.items() if value is not None} | policy_params(policy)
    with logged_run(uri, experiment=Tracking().experiment, name=f"evaluate {name}", params=params) as track:
        track(tested_metrics(rows[name], over_window(rows)[name]), 0)


def log_ablation(variants: Sequence[Variant], config: Config, folder: Path, *, about: Mapping[str, Any]) -> None:
    """Log the variants of an ablation in the store of its searches, where they have one, as a run of its folder's name.

    Raises what ``logged_run`` does.
    """
    if config.tracking is None:
        return
    uri = config.tracking.whole_uri or default_uri(folder)
    with logged_run(uri, experiment=config.tracking.experiment, name=f"ablation {folder.name}", params=about) as track:
        for variant in variants:
            track(_figures(variant), 0)


def _figures(variant: Variant) -> Mapping[str, float]:
    figures = with_interval("over_window", variant.over_window)
    of_both = {"memory_score": variant.score, "evidence_recall": variant.evidence, "mean_of_both": variant.both}
    for name, compared in of_both.items():
        figures |= with_interval(name, compared.estimate)
        if compared.difference is not None:
            figures |= with_interval(f"{name}_difference", compared.difference)
    return {f"{slug(variant.name)}/{name}": value for name, value in known(figures).items()}
