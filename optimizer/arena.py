"""Where candidates are compared: on the same users as their parent, then on users that the search never proposed on."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna

from ..data.splits import Splits
from ..env import Episode, Evaluation, Evaluator
from ..env.statistics import Estimate, paired_difference
from ..policies.policy import MemoryPolicy
from .evidence import gather_evidence
from .study import Evidence, Trial, quiet_optuna

LOST = 0.1
"""p-value of the signed-rank test below which a race counts as lost."""


@dataclass(frozen=True, slots=True)
class Race:
    """How a candidate did on the train users."""

    scores: Mapping[str, float]
    """Memory score by user; NaN where an episode failed."""
    finished: bool
    summary: Mapping[str, Any]
    """Empty unless finished."""
    evidence: tuple[Evidence, ...]


class Arena:
    """Runs candidates on the splits of a study."""

    def __init__(
        self,
        splits: Splits,
        evaluator: Evaluator,
        *,
        seed: int,
        block: int,
        done: Callable[[Episode], None] = lambda _: None,
    ) -> None:
        """Race in blocks of ``block`` train users, in an order set by ``seed``; ``done`` hears of every episode."""
        self.templates = evaluator.cast.protocol.templates
        self._train = random.Random(f"train:{seed}").sample(splits.train, len(splits.train))
        self._validation = splits.validation
        self._evaluator = evaluator
        self._seed = seed
        self._block = block
        self._done = done

    async def race(self, policy: MemoryPolicy, parent: Trial | None) -> Race:
        """Run a candidate on the train users, block by block, until it has lost to its parent or all are done."""
        scores: dict[str, float] = {}
        blocks: list[Evaluation] = []
        size = self._block if parent is not None else len(self._train)
        for start in range(0, len(self._train), size):
            users = self._train[start : start + size]
            evaluation = await self._evaluator.evaluate(policy, users, done=self._done)
            blocks.append(evaluation)
            scores |= {user.id: evaluation.by_user.get(user.id, math.nan) for user in users}
            if parent is not None and len(scores) < len(self._train) and has_lost(parent.train, scores):
                return Race(scores, finished=False, summary={}, evidence=())
        rng = random.Random(f"evidence:{self._seed}:{policy.key}")
        evidence = gather_evidence(joined(blocks), self._train, rng=rng)
        return Race(scores, finished=True, summary=summarise(joined(blocks)), evidence=evidence)

    async def validate(self, policy: MemoryPolicy) -> Evaluation:
        """Run a candidate on all validation users."""
        return await self._evaluator.evaluate(policy, self._validation, done=self._done)


def joined(blocks: Sequence[Evaluation]) -> Evaluation:
    """Put evaluations of one policy on different users together."""
    return Evaluation(
        policy=blocks[0].policy,
        users=tuple(user for block in blocks for user in block.users),
        episodes=tuple(episode for block in blocks for episode in block.episodes),
    )


def summarise(evaluation: Evaluation) -> dict[str, Any]:
    """Return the figures that a trial keeps."""
    whole = evaluation.as_json("")
    return {name: whole[name] for name in ("accuracy", "upper_bound", "memory_score", "shares", "failures")}


def has_lost(parent: Mapping[str, float], scores: Mapping[str, float]) -> bool:
    """Tell whether scores are below the parent's on the same users by a signed-rank test (Optuna's WilcoxonPruner)."""
    users = [u for u, score in scores.items() if not math.isnan(score) and not math.isnan(parent.get(u, math.nan))]
    if len(users) < 2:
        return False
    with quiet_optuna():
        study = optuna.create_study(
            direction="maximize", pruner=optuna.pruners.WilcoxonPruner(p_threshold=LOST, n_startup_steps=2)
        )
        steps = {i: parent[user] for i, user in enumerate(users)}
        mean = sum(steps.values()) / len(steps)
        study.add_trial(optuna.create_trial(value=mean, intermediate_values=steps))
        trial = study.ask()
        for i, user in enumerate(users):
            trial.report(scores[user], i)
        return trial.should_prune()


def compare(scores: Mapping[str, float], others: Mapping[str, float]) -> Estimate:
    """Return the paired difference over users, with its interval."""
    return paired_difference(scores, others)


def told(difference: Estimate) -> str:
    """Write a difference with its interval, where there is one."""
    mean, low, high = (round(value, 3) + 0.0 for value in (difference.mean, difference.low, difference.high))
    return f"{mean:+.3f}" if math.isnan(low) else f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
