"""A policy's scores on a set of scenarios."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..data.scenario import Question, Scenario
from ..policies.lm import EndpointDown, LanguageModelError, Ledger, Message, Metered, Request
from ..policies.lm.base import merged
from ..policies.lm.chain import NONE, Chain, chain
from ..policies.policy import MemoryPolicy
from .concurrency import both, side_by_side
from .episode import Episode
from .protocol import read_answer, upper_bound_prompt
from .rollout import Cast, rollout
from .scoring import Ceiling, PeriodScore, UserScore, score_episode
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
    wall_s: float = 0.0
    critical_path: Chain = NONE
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
        return estimate(list(self.by_user.values()))

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

    def as_json(self, policy: str) -> dict[str, Any]:
        """Return the evaluation as plain JSON values; ``policy`` is how the user called it. NaN becomes null."""
        score = self.memory_score
        names = ("accuracy", "memory_score", *SHARES)
        series = {name: self.period_means(name) for name in names}
        spend = self.ledger.by_role
        return {
            "policy": policy,
            "key": self.policy.key,
            "users": len(self.users),
            "accuracy": _number(self.mean("accuracy")),
            "random": _number(self.mean("random")),
            "upper_bound": _number(self.mean("upper_bound")),
            "memory_score": _number(score.mean),
            "interval": [_number(score.low), _number(score.high)],
            "shares": {name: _number(self.mean(name)) for name in SHARES},
            "periods": [{name: _number(series[name][p]) for name in names} for p in range(len(series["accuracy"]))],
            "by_user": {user: _number(value) for user, value in self.by_user.items()},
            "unparsable": sum(period.unparsable for user in self.users for period in user.periods),
            "failed_writes": sum(
                event.error is not None for e in self.episodes for period in e.periods for event in period.events
            ),
            "calls": {role: s.calls for role, s in spend.items()},
            "cached": {role: s.cached for role, s in spend.items()},
            "tokens": {role: {"input": s.input_tokens, "output": s.output_tokens} for role, s in spend.items()},
            "cost_usd": self.ledger.total.cost_usd,
            "wall_s": round(self.wall_s, 3),
            "critical_path_s": round(self.critical_path.seconds, 3),
            "critical_path_calls": self.critical_path.calls,
            "failures": [{"user": user, "reason": reason} for user, reason in self.failures.items()],
        }


class Evaluator:
    """Evaluates policies; a scenario's upper bound is found once and billed to the evaluation that needed it first."""

    def __init__(self, cast: Cast, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Evaluate with this cast; ``clock`` is in seconds."""
        self.cast = cast
        self._clock = clock
        self._ceilings: dict[str, Ceiling] = {}

    async def evaluate(
        self, policy: MemoryPolicy, scenarios: Sequence[Scenario], *, done: Callable[[Episode], None] = lambda _: None
    ) -> Evaluation:
        """Run the policy in every scenario side by side; ``done`` hears of each finished episode.

        A failed episode is kept and its user goes unscored. Raises BudgetExhausted when the budget ends it, and
        EndpointDown when no call gets through.
        """
        start, before = self._clock(), chain()
        episodes, (problems, ledger) = await both(
            side_by_side(self._episode(policy, scenario, done) for scenario in scenarios),
            self._find_ceilings(scenarios),
        )
        episodes = [_without_ceiling(episode, problems.get(episode.user)) for episode in episodes]
        scored = [(e, s) for e, s in zip(episodes, scenarios, strict=True) if e.failure is None]
        return Evaluation(
            policy=policy,
            users=tuple(score_episode(episode, scenario, self._ceilings[scenario.id]) for episode, scenario in scored),
            episodes=tuple(episodes),
            ledger=merged([ledger, *(episode.ledger for episode in episodes)]),
            wall_s=self._clock() - start,
            critical_path=Chain(chain().seconds - before.seconds, chain().calls - before.calls),
        )

    async def _episode(self, policy: MemoryPolicy, scenario: Scenario, done: Callable[[Episode], None]) -> Episode:
        episode = await rollout(scenario, policy, self.cast)
        done(episode)
        return episode

    async def _find_ceilings(self, scenarios: Sequence[Scenario]) -> tuple[dict[str, LanguageModelError], Ledger]:
        """Find the upper bounds that are not known yet; return why some could not be found, and what it took."""
        model = Metered(self.cast.assistant)
        new = [scenario for scenario in scenarios if scenario.id not in self._ceilings]
        problems: dict[str, LanguageModelError] = {}
        found = await side_by_side(self._find_ceiling(scenario, model) for scenario in new)
        for scenario, ceiling in zip(new, found, strict=True):
            if isinstance(ceiling, LanguageModelError):
                problems[scenario.id] = ceiling
            else:
                self._ceilings[scenario.id] = ceiling
        return problems, model.ledger

    async def _find_ceiling(self, scenario: Scenario, model: Metered) -> Ceiling | LanguageModelError:
        try:
            return await side_by_side(self._question_ceiling(question, model) for question in scenario.qas)
        except EndpointDown:
            raise
        except LanguageModelError as error:
            return error

    async def _question_ceiling(self, question: Question, model: Metered) -> list[float]:
        return await side_by_side(self._choice_ceiling(question, c, model) for c in range(len(question.answer_choices)))

    async def _choice_ceiling(self, question: Question, choice: int, model: Metered) -> float:
        state = question.answer_choices[choice].state
        template = self.cast.protocol.templates.upper_bound
        prompt = upper_bound_prompt(template, question, dict(zip(question.required_info, state, strict=True)))
        request = Request((Message("user", prompt),), role="upper_bound", json_mode=True)
        chosen = read_answer((await model.complete(request)).text, question)
        return float(chosen is not None and question.answer_choices[chosen].state == state)


def _without_ceiling(episode: Episode, problem: LanguageModelError | None) -> Episode:
    """Return the episode as failed when its upper bound could not be found."""
    if problem is None or episode.failure is not None:
        return episode
    return replace(episode, failure=f"upper bound: {problem}")


def _value(period: PeriodScore, name: str) -> float:
    return float(getattr(period.diagnosis if name in {"accuracy", *SHARES} else period, name))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
