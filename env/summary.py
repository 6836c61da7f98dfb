"""What a policy's evaluation comes to: the figures that are kept, shown and compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..policies.assistant import ContextUse, added
from ..policies.lm import CallRole, Ledger, Spend
from ..policies.lm.base import merged
from ..policies.lm.chain import NO_CALLS, Chain
from .cost import TurnCost, turn_cost
from .evaluation import Evaluation
from .scoring import FAILURE_KINDS
from .statistics import Estimate, estimate

STAGE_FIGURES = ("accuracy", "memory_score", *FAILURE_KINDS)
"""What is told stage by stage."""

UNSCORED = Estimate(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of one policy's evaluation; scores are higher the better, and NaN where nothing was scored.

    ``from_json`` of ``as_json`` gives an equal summary, once figures are rounded as ``of`` does.
    """

    policy: str
    """What the policy is called."""
    key: str = ""
    oracle: bool = False
    """Whether the policy knows what will be asked: an upper limit, nothing to ship."""
    compat: tuple[str, ...] = ()
    """Defects of the reference that are reproduced, by name."""
    accuracy: float = math.nan
    """Mean over groups and stages, in [0, 1]; so are ``floor`` and ``ceiling``."""
    floor: float = math.nan
    """Accuracy without any memory; the dialogue's is chance."""
    ceiling: float = math.nan
    """Accuracy with exactly what is needed; the dialogue's is the upper bound."""
    memory_score: Estimate = UNSCORED
    """Mean over groups, 0 at the floor and 1 at the ceiling."""
    shares: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(FAILURE_KINDS, math.nan))
    """Of all answers, those lost in each kind of failure; with accuracy they sum to 1."""
    stages: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: dict.fromkeys(STAGE_FIGURES, ()))
    """``STAGE_FIGURES`` at each stage, means over groups."""
    by_group: Mapping[str, float] = field(default_factory=dict)
    """Memory score of each group whose episode is complete."""
    reworded_by_group: Mapping[str, float] = field(default_factory=dict)
    """The same when each check is asked in other words; empty where nothing was asked so."""
    unscored: int = 0
    """Stages of groups whose ceiling is hardly above the floor, so that they have no memory score."""
    unparsable: int = 0
    """Answers that could not be read, and count as wrong."""
    failed_writes: int = 0
    """Writes that could not be read, and left memory as it was."""
    failed_rewrites: int = 0
    """Prompts rewritten by the policy itself that could not be read, and stayed as they were."""
    spend: Ledger = field(default_factory=Ledger)
    per_turn: TurnCost | None = None
    """None where nobody replied, as in replayed talks."""
    context: Mapping[CallRole, ContextUse] = field(default_factory=dict)
    """What memory put before the model, by what the calls were for."""
    wall_s: float = 0.0
    critical_path: Chain = NO_CALLS
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why episodes failed, by group; these have no score."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """JSON values that a track adds."""

    @classmethod
    def of(cls, evaluation: Evaluation, *, name: str) -> Summary:
        """Sum up an evaluation of the policy that is called ``name``, rounded as it is kept."""
        stages = [stage for episode in evaluation.episodes for stage in episode.stages]
        whole = cls(
            policy=name,
            key=evaluation.policy.key,
            oracle=evaluation.policy.oracle,
            compat=tuple(sorted(evaluation.compat)),
            accuracy=evaluation.mean("accuracy"),
            floor=evaluation.mean("floor"),
            ceiling=evaluation.mean("ceiling"),
            memory_score=evaluation.memory_score,
            shares={share: evaluation.mean(share) for share in FAILURE_KINDS},
            stages={figure: tuple(evaluation.stage_means(figure)) for figure in STAGE_FIGURES},
            by_group=evaluation.by_group,
            reworded_by_group={score.group: score.memory_score for score in evaluation.reworded},
            unparsable=sum(
                stage.unparsable for group in (*evaluation.groups, *evaluation.reworded) for stage in group.stages
            ),
            unscored=evaluation.unscored,
            failed_writes=sum(write.error is not None for stage in stages for write in stage.writes),
            failed_rewrites=sum(revision.error is not None for stage in stages for revision in stage.revisions),
            spend=_as_counted(evaluation),
            per_turn=turn_cost(evaluation.ledger),
            context=added(episode.uses for episode in evaluation.episodes),
            wall_s=evaluation.wall_s,
            critical_path=evaluation.critical_path,
            failures=evaluation.failures,
            extras=evaluation.extras,
        )
        return cls.from_json(whole.as_json())

    @property
    def most_context_tokens(self) -> int:
        """The most that memory put before the model in one call."""
        return max((use.most_tokens for use in self.context.values()), default=0)

    @property
    def reworded(self) -> Estimate:
        """Memory score when each check is asked in other words; NaN where nothing was asked so."""
        return estimate(list(self.reworded_by_group.values()))

    @property
    def groups(self) -> int:
        """Groups whose episode is complete."""
        return len(self.by_group)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values: NaN is null, figures have six digits."""
        return {
            "policy": self.policy,
            "key": self.key,
            "oracle": self.oracle,
            "compat": list(self.compat),
            "groups": self.groups,
            "accuracy": json_number(self.accuracy),
            "floor": json_number(self.floor),
            "ceiling": json_number(self.ceiling),
            **score_json(self.memory_score),
            "shares": {share: json_number(value) for share, value in self.shares.items()},
            "stages": {figure: [json_number(value) for value in series] for figure, series in self.stages.items()},
            "by_group": {group: json_number(value) for group, value in self.by_group.items()},
            "reworded": json_number(self.reworded.mean),
            "reworded_by_group": {group: json_number(value) for group, value in self.reworded_by_group.items()},
            "unscored": self.unscored,
            "unparsable": self.unparsable,
            "failed_writes": self.failed_writes,
            "failed_rewrites": self.failed_rewrites,
            "spend": self.spend.as_json(),
            "per_turn": None if self.per_turn is None else self.per_turn.as_json(),
            "cost_usd": self.spend.total.cost_usd,
            "context": {role: asdict(use) for role, use in self.context.items()},
            "wall_s": json_number(self.wall_s),
            "critical_path": {"seconds": json_number(self.critical_path.seconds), "calls": self.critical_path.calls},
            "failures": dict(self.failures),
            "extras": dict(self.extras),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summary:
        """Read what ``as_json`` gave."""
        by_group = {group: from_json_number(value) for group, value in values["by_group"].items()}
        mean, low, high = map(from_json_number, (values["memory_score"], *values["interval"]))
        known = sum(not math.isnan(value) for value in by_group.values())
        return cls(
            policy=values["policy"],
            key=values["key"],
            oracle=values["oracle"],
            compat=tuple(values["compat"]),
            accuracy=from_json_number(values["accuracy"]),
            floor=from_json_number(values["floor"]),
            ceiling=from_json_number(values["ceiling"]),
            memory_score=Estimate(mean, low, high, known),
            shares={share: from_json_number(value) for share, value in values["shares"].items()},
            stages={figure: tuple(map(from_json_number, series)) for figure, series in values["stages"].items()},
            by_group=by_group,
            reworded_by_group={g: from_json_number(v) for g, v in values["reworded_by_group"].items()},
            unscored=values["unscored"],
            unparsable=values["unparsable"],
            failed_writes=values["failed_writes"],
            failed_rewrites=values["failed_rewrites"],
            spend=Ledger.from_json(values["spend"]),
            per_turn=None if values["per_turn"] is None else TurnCost(**values["per_turn"]),
            context={role: ContextUse(**use) for role, use in values["context"].items()},
            wall_s=values["wall_s"],
            critical_path=Chain(**values["critical_path"]),
            failures=values["failures"],
            extras=values["extras"],
        )


def json_number(value: float) -> float | None:
    """Return a figure with six digits; None, JSON's null, for NaN."""
    return None if math.isnan(value) else round(value, 6)


def score_json(score: Estimate) -> dict[str, Any]:
    """Return a memory score and its interval as plain JSON values."""
    return {"memory_score": json_number(score.mean), "interval": [json_number(score.low), json_number(score.high)]}


def from_json_number(value: float | None) -> float:
    """Read what ``json_number`` gave."""
    return math.nan if value is None else value


def _as_counted(evaluation: Evaluation) -> Ledger:
    """Return what the evaluation took, as AMemGym counts it where that is asked for."""
    ledger = merged([evaluation.ledger])
    if "total_output_tokens" in evaluation.compat:
        ledger.add_ledger(Ledger({role: Spend(output_tokens=s.input_tokens) for role, s in ledger.by_role.items()}))
    return ledger
