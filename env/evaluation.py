"""A policy's scores on a set of scenarios."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ..data.dialogue.scenario import Question, Scenario
from ..policies.lm import EndpointDown, LanguageModelError, Ledger, Message, Metered, Request
from ..policies.lm.base import merged
from ..policies.lm.chain import NO_CALLS, Chain, chain
from ..policies.policy import MemoryPolicy
from .concurrency import both, side_by_side
from .dialogue.compat import NONE, SEED, Compat, guess_unread, guess_unread_bounds
from .dialogue.protocol import read_answer, upper_bound_prompt
from .dialogue.rollout import Cast, Rollout
from .dialogue.scoring import METRICS, Level, Metric, PeriodScore, UserScore, score_episode
from .dialogue.transcript import Transcript, transcript_of
from .episode import Answer, Episode, UpperBound, answer_of
from .statistics import Estimate, estimate, nan_mean

SHARES = ("write", "read", "utilisation")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A policy's scores on a set of users, with intervals clustered by user, diagnosis and cost."""

    policy: MemoryPolicy
    users: tuple[UserScore, ...]
    """Users whose episode is complete."""
    episodes: tuple[Episode, ...] = field(repr=False, default=())
    """One for each user asked for, in their order, failed ones included."""
    ledger: Ledger = field(default_factory=Ledger)
    upper_bounds: Mapping[str, UpperBound] = field(repr=False, default_factory=dict)
    """By user, where one was found."""
    compat: Compat = NONE
    """AMemGym's defects that are reproduced."""
    wall_s: float = 0.0
    critical_path: Chain = NO_CALLS
    """The longest chain of dependent calls that were sent."""

    @property
    def failures(self) -> dict[str, str]:
        """Why episodes failed, by user; their users have no score."""
        return {episode.user: episode.failure for episode in self.episodes if episode.failure is not None}

    @property
    def by_user(self) -> dict[str, float]:
        """Each user's memory score."""
        return {user.user: user.memory_score for user in self.users}

    @property
    def memory_score(self) -> Estimate:
        """Mean over users of their mean over periods; 0 is chance, 1 the upper bound."""
        return self.mean_memory_score("accuracy")

    def mean_memory_score(self, metric: Metric) -> Estimate:
        """Return the mean over users of a metric's memory score; NaN where an unguarded one is."""
        scores = [user.mean_memory_score(metric) for user in self.users]
        if any(math.isnan(score) and not user.guarded for user, score in zip(self.users, scores, strict=True)):
            return Estimate(math.nan, math.nan, math.nan, len(scores))
        return estimate(scores)

    def level(self, metric: Metric) -> Level:
        """Return a metric and its baselines, means over users and periods."""
        levels = [[period.level(metric) for period in user.periods] for user in self.users]
        return Level(
            score=nan_mean([nan_mean([level.score for level in user]) for user in levels]),
            random=nan_mean([nan_mean([level.random for level in user]) for user in levels]),
            upper_bound=nan_mean([nan_mean([level.upper_bound for level in user]) for user in levels]),
        )

    def mean(self, name: str) -> float:
        """Return the mean over users and periods of ``accuracy``, ``random``, ``upper_bound`` or a share."""
        return nan_mean([nan_mean([_value(period, name) for period in user.periods]) for user in self.users])

    def period_means(self, name: str) -> list[float]:
        """Return the mean over users for each period; ``name`` as in ``mean``, or ``memory_score``."""
        count = max((len(user.periods) for user in self.users), default=0)
        return [
            nan_mean([_value(user.periods[p], name) for user in self.users if p < len(user.periods)])
            for p in range(count)
        ]

    @property
    def extras(self) -> dict[str, Any]:
        """What a summary says besides, as JSON values."""
        return {"metrics": {metric: self._metric_json(metric) for metric in METRICS}}

    def _metric_json(self, metric: Metric) -> dict[str, float | None]:
        level = self.level(metric)
        return {
            "score": _number(level.score),
            "floor": _number(level.random),
            "ceiling": _number(level.upper_bound),
            "memory_score": _number(self.mean_memory_score(metric).mean),
        }


class Evaluator:
    """Evaluates policies; a scenario's upper bound is found once and billed to the evaluation that needed it first."""

    def __init__(
        self,
        cast: Cast,
        *,
        upper_bounds: Mapping[str, UpperBound] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Evaluate with this cast; ``upper_bounds`` by user are known already, ``clock`` is in seconds."""
        self.cast = cast
        self._clock = clock
        self._upper_bounds = dict(upper_bounds)
        self._finding = asyncio.Lock()
        self._under_way: dict[tuple[str, str], Rollout] = {}
        """By policy key and user."""

    async def evaluate(
        self,
        policy: MemoryPolicy,
        scenarios: Sequence[Scenario],
        *,
        transcripts: Mapping[str, Transcript] | None = None,
        periods: int | None = None,
        done: Callable[[Episode], None] = lambda _: None,
    ) -> Evaluation:
        """Run the policy in every scenario side by side; ``done`` hears of each finished episode.

        Where only the first ``periods`` are asked for, a later evaluation of the same policy goes on from there, unless
        it is left with ``forget``.
        Off-policy where ``transcripts`` by user are given: they are replayed. Raises TranscriptError, before any call,
        when one is not the scenario's.
        A failed episode is kept and its user goes unscored. Raises BudgetExhausted when the budget ends it, and
        EndpointDown when no call gets through.
        """
        start, before = self._clock(), chain()
        replayed: list[Transcript | None] = [None] * len(scenarios)
        if transcripts is not None:
            replayed = [transcript_of(transcripts, scenario, self.cast.protocol) for scenario in scenarios]
        episodes, (problems, ledger) = await both(
            self._episodes(policy, list(zip(scenarios, replayed, strict=True)), periods, done),
            self._find_upper_bounds(scenarios),
        )
        episodes = [_without_upper_bound(episode, problems.get(episode.user)) for episode in episodes]
        bounds = {s.id: self._upper_bounds[s.id] for s in scenarios if s.id in self._upper_bounds}
        if "guessed_answers" in self.cast.protocol.compat:
            episodes = guess_unread(episodes, scenarios)
            bounds = guess_unread_bounds(bounds, scenarios)
        return Evaluation(
            policy=policy,
            users=self._score(episodes, scenarios, bounds),
            upper_bounds=bounds,
            compat=self.cast.protocol.compat,
            episodes=tuple(episodes),
            ledger=merged([ledger, *(episode.ledger for episode in episodes)]),
            wall_s=self._clock() - start,
            critical_path=Chain(chain().seconds - before.seconds, chain().calls - before.calls),
        )

    def _score(
        self, episodes: Sequence[Episode], scenarios: Sequence[Scenario], bounds: Mapping[str, UpperBound]
    ) -> tuple[UserScore, ...]:
        compat = self.cast.protocol.compat
        return tuple(
            score_episode(episode, life, bounds[life.id], compat=compat)
            for episode, life in zip(episodes, scenarios, strict=True)
            if episode.failure is None
        )

    @property
    def upper_bounds(self) -> Mapping[str, UpperBound]:
        """Those that were found, by user."""
        return self._upper_bounds

    def forget(self, policy: MemoryPolicy) -> None:
        """Leave a policy's episodes that are under way."""
        self._under_way = {place: one for place, one in self._under_way.items() if place[0] != policy.key}

    async def _episodes(
        self,
        policy: MemoryPolicy,
        lives: Sequence[tuple[Scenario, Transcript | None]],
        periods: int | None,
        done: Callable[[Episode], None],
    ) -> list[Episode]:
        if policy.evolution is None or "guessed_answers" not in self.cast.protocol.compat:
            return await side_by_side(self._episode(policy, life, talk, periods, done) for life, talk in lives)
        guesses = random.Random(SEED)  # AMemGym's next user goes on where its last one left the generator
        return [await self._episode(policy, life, talk, periods, done, guesses) for life, talk in lives]

    async def _episode(
        self,
        policy: MemoryPolicy,
        scenario: Scenario,
        replayed: Transcript | None,
        periods: int | None,
        done: Callable[[Episode], None],
        guesses: random.Random | None = None,
    ) -> Episode:
        place = policy.key, scenario.id
        begun = self._under_way.pop(place, None)
        under_way = begun or Rollout(scenario, policy, self.cast, replayed=replayed, guesses=guesses)
        episode = await under_way.run(periods)
        if periods is not None and periods < len(scenario.periods):
            self._under_way[place] = under_way
        else:
            done(episode)
        return episode

    async def _find_upper_bounds(self, scenarios: Sequence[Scenario]) -> tuple[dict[str, LanguageModelError], Ledger]:
        """Find the upper bounds that are not known yet; return why some could not be found, and what it took."""
        async with self._finding:
            return await self._find_new_upper_bounds(scenarios)

    async def _find_new_upper_bounds(
        self, scenarios: Sequence[Scenario]
    ) -> tuple[dict[str, LanguageModelError], Ledger]:
        model = Metered(self.cast.assistant)
        new = [scenario for scenario in scenarios if scenario.id not in self._upper_bounds]
        problems: dict[str, LanguageModelError] = {}
        found = await side_by_side(self._find_upper_bound(scenario, model) for scenario in new)
        for scenario, bound in zip(new, found, strict=True):
            if isinstance(bound, LanguageModelError):
                problems[scenario.id] = bound
            else:
                self._upper_bounds[scenario.id] = bound
        return problems, model.ledger

    async def _find_upper_bound(self, scenario: Scenario, model: Metered) -> UpperBound | LanguageModelError:
        try:
            return tuple(await side_by_side(self._with_each_state(question, model) for question in scenario.qas))
        except EndpointDown:
            raise
        except LanguageModelError as error:
            return error

    async def _with_each_state(self, question: Question, model: Metered) -> tuple[Answer, ...]:
        choices = range(len(question.answer_choices))
        return tuple(await side_by_side(self._with_state_of(choice, question, model) for choice in choices))

    async def _with_state_of(self, choice: int, question: Question, model: Metered) -> Answer:
        protocol, values = self.cast.protocol, question.answer_choices[choice].state
        state = dict(zip(question.required_info, values, strict=True))
        prompt = upper_bound_prompt(protocol.templates.upper_bound, question, state, compat=protocol.compat)
        request = Request((Message("user", prompt),), role="upper_bound", json_mode=True)
        raw = (await model.complete(request)).text
        return answer_of(raw, read_answer(raw, question, compat=protocol.compat), choice, question)


def _without_upper_bound(episode: Episode, problem: LanguageModelError | None) -> Episode:
    """Return the episode as failed when its upper bound could not be found."""
    if problem is None or episode.failure is not None:
        return episode
    return replace(episode, failure=f"upper bound: {problem}")


def _value(period: PeriodScore, name: str) -> float:
    return float(getattr(period.diagnosis if name in {"accuracy", *SHARES} else period, name))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
