"""Forecasts of candidates: they write down recorded episodes, and MemRM predicts what they would still know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...data.task import Task
from ...env import Cast, Episode, Track
from ...env.concurrency import side_by_side
from ...env.memrm.collection.retrievals import retrieve
from ...env.memrm.forecasting.forecast import Forecast, features_of, read_forecast
from ...env.memrm.model.checkpoint import read_model_card
from ...env.memrm.model.scoring import MemRM, folder_of, load_memrm
from ...env.memrm.rows.retrievals import Retrieval
from ...env.statistics import nan_mean
from ...policies.lm import EndpointDown, LanguageModelError
from ...policies.policy import MemoryPolicy


@dataclass(frozen=True)
class ForecastModel:
    """A reward model, and the forecast that was fitted with it."""

    reward: MemRM
    expected: Forecast

    def score(self, retrievals: Sequence[Retrieval]) -> float:
        """Return the share of right answers to expect, in [0, 1]; NaN where it cannot tell."""
        return self.expected.score(features_of(retrievals, self.reward))

    def is_foreign(self, episodes: Iterable[Episode]) -> bool:
        """Tell whether the texts that memory heard are unlike those that the model learned from."""
        heard = (messages for episode in episodes for stage in episode.stages for messages in stage.heard)
        return self.reward.is_foreign([m.content for messages in heard for m in messages if m.role != "assistant"])


def knows(checkpoint: str, model: str) -> bool:
    """Tell whether a checkpoint learned from this language model, as far as it says. Raises CheckpointError."""
    return read_model_card(folder_of(checkpoint)).language_model in {None, model}


def load_forecast_model(checkpoint: str) -> ForecastModel:
    """Load a checkpoint that can rank policies. Raises CheckpointError."""
    return ForecastModel(load_memrm(checkpoint), read_forecast(folder_of(checkpoint)))


@dataclass(frozen=True)
class ReplayForecaster:
    """Forecasts from recorded episodes; only the policy's writes are calls."""

    model: ForecastModel
    track: Track
    tasks: Sequence[Task]
    replays: Mapping[str, Episode]
    """By task."""
    cast: Cast

    async def forecast(self, policy: MemoryPolicy) -> float:
        """Return the share of right answers to expect, in [0, 1]; NaN where it cannot tell."""
        return nan_mean(await side_by_side(self._of(policy, task) for task in self.tasks))

    async def _of(self, policy: MemoryPolicy, task: Task) -> float:
        try:
            retrievals = await retrieve(
                policy, task, self.replays[task.id], model=self.cast.assistant, cast=self.cast, track=self.track
            )
        except EndpointDown:
            raise
        except LanguageModelError:
            return math.nan
        return self.model.score(retrievals)
