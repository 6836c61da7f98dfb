"""Forecasts of candidates: they listen to recorded talks and write, and MemRM tells what they would still know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...data.dialogue.scenario import Scenario
from ...env import Cast
from ...env.concurrency import side_by_side
from ...env.dialogue.transcript import Transcript
from ...env.memrm.collection.retrievals import retrieve
from ...env.memrm.forecasting.features import features_of
from ...env.memrm.forecasting.forecast import Forecast, read_forecast
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

    def score(self, shown: Sequence[Retrieval]) -> float:
        """Return the share of right answers to expect, in [0, 1]; NaN where it cannot tell."""
        return self.expected.score(features_of(shown, self.reward))

    def is_foreign(self, talks: Iterable[Transcript]) -> bool:
        """Tell whether users talk unlike those that the model learned from."""
        said = [turn.user for talk in talks for sessions in talk for turns in sessions for turn in turns]
        return self.reward.is_foreign(said)


def knows(checkpoint: str, model: str) -> bool:
    """Tell whether a checkpoint learned from this language model, as far as it says. Raises CheckpointError."""
    return read_model_card(folder_of(checkpoint)).language_model in {None, model}


def load_forecast_model(checkpoint: str) -> ForecastModel:
    """Load a checkpoint that can rank policies. Raises CheckpointError."""
    return ForecastModel(load_memrm(checkpoint), read_forecast(folder_of(checkpoint)))


@dataclass(frozen=True)
class TalkForecaster:
    """Forecasts from recorded talks: the only calls are those with which a policy writes."""

    model: ForecastModel
    users: Sequence[Scenario]
    talks: Mapping[str, Transcript]
    """By user."""
    cast: Cast

    async def forecast(self, policy: MemoryPolicy) -> float:
        """Return the share of right answers to expect, in [0, 1]; NaN where it cannot tell."""
        return nan_mean(await side_by_side(self._of(policy, user) for user in self.users))

    async def _of(self, policy: MemoryPolicy, user: Scenario) -> float:
        try:
            shown = await retrieve(
                policy,
                user,
                self.talks[user.id],
                model=self.cast.assistant,
                embedder=self.cast.embedder,
                protocol=self.cast.protocol,
            )
        except EndpointDown:
            raise
        except LanguageModelError:
            return math.nan
        return self.model.score(shown)
