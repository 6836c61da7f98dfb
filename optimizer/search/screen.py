"""Screening: a cheap look at candidates that may rank and drop them, never accept one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from ...data.task import Task
from ...env import Cast, Episode, Track
from ...env.concurrency import side_by_side
from ...env.memrm.collection.retrievals import retrieve
from ...env.memrm.forecasting.forecast import Forecast, features_of, read_forecast
from ...env.memrm.forecasting.presence import SharedWords
from ...env.memrm.forecasting.ranking import spearman
from ...env.memrm.model.checkpoint import TOKENIZER, ModelCard, is_foreign, read_model_card, read_tokens
from ...env.memrm.model.scoring import folder_of
from ...env.memrm.model.tokens import Tokens
from ...env.statistics import nan_mean
from ...env.summary import json_number
from ...policies.lm import EndpointDown, LanguageModelError, Ledger, on_account
from ...policies.memory import MemoryFault
from ...policies.policy import MemoryPolicy
from ..study import Trial

PROMOTED = 0.1
"""Share of the dropped candidates that race all the same: without it the screen's mistakes would stay unseen."""
MEASURED = 12
"""Raced candidates that it takes to judge a screen by its rank correlation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the screen says of one candidate."""

    keep: bool
    reason: str
    forecast: float = math.nan
    """Higher is better; NaN where there is none."""
    ledger: Ledger = field(default_factory=Ledger, compare=False)


class Screen(Protocol):
    """Looks at a generation's candidates before any episode is spent on them."""

    @property
    def drop(self) -> float:
        """Share of a generation's candidates that it drops, in [0, 1)."""
        ...

    async def screen(
        self, candidates: Sequence[MemoryPolicy], trials: Sequence[Trial], *, generation: int
    ) -> list[Verdict]:
        """Return one verdict per candidate, aligned.

        ``trials`` are all so far; a search that goes on has some of this generation's among them. Raises
        BudgetExhausted or EndpointDown.
        """
        ...


class KeepAll:
    """The screen that drops nothing."""

    drop: float = 0.0

    async def screen(
        self, candidates: Sequence[MemoryPolicy], trials: Sequence[Trial], *, generation: int
    ) -> list[Verdict]:
        """Keep every candidate."""
        return [Verdict(keep=True, reason="not screened") for _ in candidates]


@dataclass(frozen=True)
class ForecastModel:
    """A forecast, and what tells texts that are foreign to it."""

    expected: Forecast
    tokens: Tokens
    card: ModelCard

    def is_foreign(self, episodes: Iterable[Episode]) -> bool:
        """Tell whether the texts that memory heard are unlike those that the forecast was fitted on."""
        heard = (messages for episode in episodes for stage in episode.stages for messages in stage.heard)
        said = [m.content for messages in heard for m in messages if m.role != "assistant"]
        return is_foreign(said, self.tokens, self.card)


def knows(checkpoint: str, model: str) -> bool:
    """Tell whether a checkpoint learned from this language model, as far as it says. Raises CheckpointError."""
    return read_model_card(folder_of(checkpoint)).language_model in {None, model}


def load_forecast_model(checkpoint: str) -> ForecastModel:
    """Load a checkpoint that can rank policies. Raises CheckpointError."""
    folder = folder_of(checkpoint)
    card = read_model_card(folder)  # first, for it says so where there is no folder
    return ForecastModel(read_forecast(folder), read_tokens(folder / TOKENIZER), card)


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
        except (LanguageModelError, MemoryFault):
            return math.nan
        return self.model.expected.score(features_of(retrievals, SharedWords()))


@dataclass(frozen=True)
class ForecastScreen:
    """Drops the candidates of a generation with the worst forecasts, and measures itself on those that race."""

    forecast: Callable[[MemoryPolicy], Coroutine[Any, Any, float]]
    """Tells how good a policy will be, roughly and cheaply: higher is better, and NaN where it cannot tell. Raises
    BudgetExhausted or EndpointDown."""
    drop: float
    """Share of a generation's candidates, in [0, 1)."""
    least_correlation: float
    """Rank correlation of forecasts and raced scores below which it drops nothing more."""
    seed: int

    async def screen(
        self, candidates: Sequence[MemoryPolicy], trials: Sequence[Trial], *, generation: int
    ) -> list[Verdict]:
        """Drop the worst, but for a random tenth of them; keep candidates without a forecast."""
        correlation = rank_correlation([trial for trial in trials if trial.generation < generation])
        if correlation < self.least_correlation:
            off = f"screening is off: its rank correlation is {correlation:.2f}, below {self.least_correlation:g}"
            return [Verdict(keep=True, reason=off) for _ in candidates]
        known = {t.policy.key: t.forecast for t in trials if t.policy is not None and not math.isnan(t.forecast)}
        new = {policy.key: policy for policy in candidates if policy.key not in known}
        ledgers = {key: Ledger() for key in new}
        forecasts = await side_by_side(self._forecast(policy, ledgers[key]) for key, policy in new.items())
        known |= dict(zip(new, forecasts, strict=True))
        ranked = sorted({(known[policy.key], policy.key) for policy in candidates if not math.isnan(known[policy.key])})
        worst = {key for _, key in ranked[: len(ranked) - racing(len(ranked), self.drop)]}
        places = {key: f"{len(ranked) - i} of {len(ranked)}" for i, (_, key) in enumerate(ranked)}

        def verdict(key: str) -> Verdict:
            ledger = ledgers.pop(key, Ledger())
            if key not in places:
                return Verdict(keep=True, reason="no forecast", ledger=ledger)
            reason = f"forecast {known[key]:.3f}, {places[key]}"
            promoted = random.Random(f"screen:{self.seed}:{generation}:{key}").random() < PROMOTED
            if key in worst and promoted:
                return Verdict(True, f"{reason}: raced all the same, to measure the screen", known[key], ledger)
            return Verdict(key not in worst, reason, known[key], ledger)

        return [verdict(policy.key) for policy in candidates]

    async def _forecast(self, policy: MemoryPolicy, ledger: Ledger) -> float:
        with on_account(ledger):
            return await self.forecast(policy)


def racing(candidates: int, drop: float) -> int:
    """Return how many of the candidates race, where the share ``drop`` is dropped and none is promoted."""
    return candidates - int(drop * candidates)


@dataclass(frozen=True, slots=True)
class Screened:
    """What a screen did in a search."""

    forecasts: int
    """Candidates that it ranked."""
    dropped: int
    measured: int
    """Of those that it ranked, those that raced."""
    rank_correlation: float
    """Of forecasts and scores of the measured, in [-1, 1]; NaN for fewer than ``MEASURED``."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self) | {"rank_correlation": json_number(self.rank_correlation)}


def screened(trials: Sequence[Trial]) -> Screened | None:
    """Sum up what the screen did so far; None where nothing was ranked."""
    ranked = [trial for trial in trials if not math.isnan(trial.forecast)]
    if not ranked:
        return None
    dropped, measured = (sum(t.decided_at == "screen" for t in ranked), sum(bool(t.series) for t in ranked))
    return Screened(len(ranked), dropped, measured, rank_correlation(ranked))


def rank_correlation(trials: Sequence[Trial]) -> float:
    """Return the rank correlation of forecasts and scores of the candidates that raced, in [-1, 1].

    Scores are taken over what all of them played: the first users' first periods. A candidate that lost an episode is
    left out. NaN for fewer than ``MEASURED``.
    """
    whole = [trial for trial in trials if trial.series and all(trial.series.values())]
    measured = [trial for trial in whole if not math.isnan(trial.forecast)]
    if len(measured) < MEASURED:
        return math.nan
    users = sorted(set.intersection(*(set(trial.series) for trial in measured)))
    periods = min((len(trial.series[user]) for trial in measured for user in users), default=0)
    scores = [nan_mean([nan_mean(trial.series[user][:periods]) for user in users]) for trial in measured]
    pairs = np.array([(score, t.forecast) for score, t in zip(scores, measured, strict=True) if not math.isnan(score)])
    return spearman(pairs.reshape(-1, 2))
