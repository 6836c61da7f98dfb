"""Forecasts of right answers.

1. A forecast says what scikit-learn's trees say, without scikit-learn.
2. What memory holds helps, and the forecast finds that out.
3. A damaged file is an error that names it.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import toy
from mnemotune.env.memrm.forecasting.forecast import (
    FORECAST,
    Features,
    Forecast,
    feature_table,
    features_of,
    fit_forecast,
    read_forecast,
    write_forecast,
)
from mnemotune.env.memrm.forecasting.ranking import rank
from mnemotune.env.memrm.model.checkpoint import CheckpointError
from mnemotune.env.memrm.rows.retrievals import Retrieval, RetrievalLog, retrieval_log

from .test_features import FixedScores

TASK = toy.Letters("user", "user", 1)
KEPT = {"kept": 0.95, "lost": 0.05}


def log_of(rng: random.Random, *, keeps: float, policy: str = "p", questions: int = 40) -> RetrievalLog:
    """A memory that keeps a share of messages; what is kept is answered rightly, mostly."""
    retrievals, right = [], []
    for question in range(questions):
        kept = rng.random() < keeps
        lines = ("word " * rng.randrange(1, 30),)
        needs = (("kept" if kept else "lost",),)
        retrievals.append(Retrieval(f"0.{question}", needs, frozenset(), lines, rng.randrange(90)))
        right.append(rng.random() < (0.9 if kept else 0.2))
    return retrieval_log(TASK, policy, keeps, retrievals, right)


@pytest.fixture(scope="module")
def logs() -> list[RetrievalLog]:
    rng = random.Random(0)
    return [log_of(rng, keeps=rng.random(), policy=f"policy-{i}") for i in range(30)]


@pytest.fixture(scope="module")
def forecast(logs: list[RetrievalLog]) -> Forecast:
    return fit_forecast(logs, FixedScores(KEPT), seed=0)


def features(present: float, words: int = 10) -> Features:
    return Features(present=present, outdated=0.0, buffered=0.0, words=words, lines=1, buffer_words=10)


def test_what_is_there_is_answered_rightly_more_often_invariant_2(forecast: Forecast) -> None:
    kept, lost = forecast.right([features(0.95), features(0.05)])
    assert kept == pytest.approx(0.9, abs=0.1)
    assert lost == pytest.approx(0.2, abs=0.1)


def test_the_trees_are_scikit_learns_invariant_1(
    forecast: Forecast, logs: list[RetrievalLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = []
    original = GradientBoostingClassifier.fit
    monkeypatch.setattr(GradientBoostingClassifier, "fit", lambda self, *a: fitted.append(self) or original(self, *a))
    assert fit_forecast(logs, FixedScores(KEPT), seed=0) == forecast
    found = [features(present, words) for present in np.linspace(0, 1, 11) for words in (0, 5, 25, 400)]
    expected = fitted[0].predict_proba(feature_table(found).astype(np.float32))[:, 1]
    np.testing.assert_allclose(forecast.right(found), expected, atol=1e-6)


def test_policies_are_ranked_by_what_they_keep(forecast: Forecast) -> None:
    rng = random.Random(1)
    fresh = [log_of(rng, keeps=keeps, policy=f"{keeps:.2f}") for keeps in np.linspace(0, 1, 12)]
    found = rank(fresh, FixedScores(KEPT), forecast)
    assert found.spearman > 0.9
    assert found.interval[0] <= found.spearman <= found.interval[1]
    assert [one.policy for one in found.policies] == [one.policy for one in fresh]


def test_a_policy_of_which_nothing_can_be_scored_has_no_forecast(forecast: Forecast) -> None:
    rng = random.Random(2)
    unknown = FixedScores(dict.fromkeys(KEPT, math.nan))
    found = rank([log_of(rng, keeps=0.5)], unknown, forecast)
    assert math.isnan(found.policies[0].forecast)
    assert math.isnan(found.spearman)
    assert math.isnan(forecast.score([]))


def test_a_forecast_is_written_and_read(forecast: Forecast, tmp_path: Path) -> None:
    write_forecast(tmp_path, forecast)
    assert read_forecast(tmp_path) == forecast


def test_without_a_forecast_it_is_said_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no forecast\.json, so it cannot rank policies; train it on rows"):
        read_forecast(tmp_path)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"left": [5, 0, 0]}, "its children are not after it"),
        ({"left": [0, 0, 0]}, "its children are not after it"),
        ({"feature": [99, -1, -1]}, "there is no feature 99"),
        ({"value": [0.0]}, "not of one length"),
        ({"threshold": [float("nan"), 0.0, 0.0]}, "finite"),
    ],
)
def test_a_damaged_tree_is_refused_invariant_3(changed: dict[str, list[float]], why: str, tmp_path: Path) -> None:
    tree = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, 0, 0], "right": [2, 0, 0], "value": [0, 1, 2]}
    (tmp_path / FORECAST).write_text(json.dumps({"start": 0.0, "trees": [tree | changed]}), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"forecast\.json: .*{why}"):
        read_forecast(tmp_path)


def test_answers_that_are_all_right_teach_nothing() -> None:
    shown = [Retrieval("0.0", (("kept",),), frozenset(), (), 0)]
    with pytest.raises(CheckpointError, match="needs questions that were answered rightly and ones that were not"):
        fit_forecast([retrieval_log(TASK, "p", 1.0, shown, [True])], FixedScores(KEPT), seed=0)


def test_features_keep_the_order_of_questions(forecast: Forecast) -> None:
    rng = random.Random(3)
    one = log_of(rng, keeps=0.5)
    found = features_of([shown for shown, _ in one.retrievals()], FixedScores(KEPT))
    assert [f.present for f in found] == [KEPT[shown.needs[0][0]] for shown, _ in one.retrievals()]
