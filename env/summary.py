"""What a policy's evaluation comes to: the figures that are kept, shown and compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, TypeAdapter

from ..policies.assistant import ContextUse, added
from ..policies.lm import CallRole, Ledger, Spend
from ..policies.lm.chain import NO_CALLS, Chain
from ..policies.lm.ledger import merged
from . import stored
from .cost import TurnCost, turn_cost
from .episode import Episode
from .evaluation import Evaluation
from .scoring import FAILURE_KINDS
from .statistics import Estimate, estimate

STAGE_FIGURES = ("accuracy", "memory_score", "evidence", *FAILURE_KINDS)
"""What is told stage by stage."""

UNSCORED = Estimate(math.nan, math.nan, math.nan, 0)


def json_number(value: float) -> float | None:
    """Return a figure with six digits; None, JSON's null, for NaN."""
    return None if math.isnan(value) else round(value, 6)


def from_json_number(value: float | None) -> float:
    """Read what ``json_number`` gave."""
    return math.nan if value is None else value


def _chain_json(chain: Chain) -> dict[str, Any]:
    return {"seconds": json_number(chain.seconds), "calls": chain.calls}


LedgerField = Annotated[
    Ledger, PlainValidator(Ledger.from_json), PlainSerializer(Ledger.as_json, return_type=dict[str, Any])
]
Figure = Annotated[float, BeforeValidator(from_json_number), PlainSerializer(json_number)]


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
    accuracy: Figure = math.nan
    """Mean over groups and stages, in [0, 1]; so are ``floor`` and ``ceiling``."""
    floor: Figure = math.nan
    """Accuracy without any memory; the dialogue's is chance."""
    ceiling: Figure = math.nan
    """Accuracy with exactly what is needed; the dialogue's is the upper bound."""
    memory_score: Estimate = UNSCORED
    """Mean over groups, 0 at the floor and 1 at the ceiling."""
    shares: Mapping[str, Figure] = field(default_factory=lambda: dict.fromkeys(FAILURE_KINDS, math.nan))
    """Of all answers, those lost in each kind of failure; with accuracy they sum to 1."""
    stages: Mapping[str, tuple[Figure, ...]] = field(default_factory=lambda: dict.fromkeys(STAGE_FIGURES, ()))
    """``STAGE_FIGURES`` at each stage, means over groups."""
    by_group: Mapping[str, Figure] = field(default_factory=dict)
    """Memory score of each group that was not lost."""
    readers: Mapping[str, str] = field(default_factory=dict)
    """Who of the model's family played with each group; empty where it is no family."""
    reworded_by_group: Mapping[str, Figure] = field(default_factory=dict)
    """The same when each check is asked in other words; empty where nothing was asked so."""
    evidence_by_group: Mapping[str, Figure] = field(default_factory=dict)
    """Evidence recall of each group that was not lost, in [0, 1]; NaN where it is not known."""
    stored_by_group: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    """What memory holds at the end of each group's tasks, means over them: figures of ``stored`` by name."""
    without_headroom: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The stages, 0-based, whose ceiling is hardly above the floor, so that they have no memory score, by group."""
    unparsable: int = 0
    """Answers that could not be read, and count as wrong."""
    failed_writes: int = 0
    """Writes with a reply that could not be read, which changed nothing."""
    failed_rewrites: int = 0
    """Prompts rewritten by the policy itself that could not be read, and stayed as they were."""
    spend: LedgerField = field(default_factory=Ledger)
    per_turn: Annotated[TurnCost, PlainSerializer(TurnCost.as_json)] | None = None
    """None where there was no turn, as in replayed talks."""
    context: Mapping[CallRole, ContextUse] = field(default_factory=dict)
    """What memory put before the model, by what the calls were for."""
    wall_s: Figure = 0.0
    critical_path: Annotated[Chain, PlainSerializer(_chain_json)] = NO_CALLS
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why episodes failed, by group."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """JSON values that a track adds."""

    @classmethod
    def of(cls, evaluation: Evaluation, *, name: str) -> Summary:
        """Sum up an evaluation of the policy that is called ``name``, rounded as it is kept."""
        failed_writes, failed_rewrites = _failed(evaluation.episodes)
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
            readers=evaluation.readers,
            reworded_by_group={score.group: score.memory_score for score in evaluation.reworded},
            evidence_by_group={score.group: score.evidence for score in evaluation.groups},
            stored_by_group=_stored(evaluation),
            unparsable=sum(
                stage.unparsable for group in (*evaluation.groups, *evaluation.reworded) for stage in group.stages
            ),
            without_headroom=evaluation.without_headroom,
            failed_writes=failed_writes,
            failed_rewrites=failed_rewrites,
            spend=_as_counted(evaluation),
            per_turn=turn_cost(evaluation.ledger, evaluation.turn),
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
    def evidence(self) -> Estimate:
        """Evidence recall; NaN where it is not known."""
        return estimate(list(self.evidence_by_group.values()))

    @property
    def stored(self) -> dict[str, Estimate]:
        """What memory holds at the end of a task, by figure; NaN where it is not known."""
        groups = self.stored_by_group.values()
        return {name: estimate([group.get(name, math.nan) for group in groups]) for name in stored.FIGURES}

    @property
    def by_reader(self) -> dict[str, Estimate]:
        """Memory score over the groups of each reader, in the order of their names; empty where there is no family."""
        names = sorted({*self.readers.values()})
        scores = {name: [s for group, s in self.by_group.items() if self.readers.get(group) == name] for name in names}
        return {name: estimate(of_reader) for name, of_reader in scores.items()}

    @property
    def lost(self) -> dict[str, str]:
        """Why groups have no score: their episodes failed, and not as the endpoint refused what the policy asks."""
        return {group: reason for group, reason in self.failures.items() if group not in self.by_group}

    @property
    def unscored(self) -> int:
        """How many stages have no memory score."""
        return sum(map(len, self.without_headroom.values()))

    @property
    def groups(self) -> int:
        """Groups that were not lost."""
        return len(self.by_group)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values: NaN is null, figures have six digits."""
        values: dict[str, Any] = _SUMMARY.dump_python(self, mode="json", exclude={"memory_score"})
        cost, reworded = self.spend.total.cost_usd, json_number(self.reworded.mean)
        counts = {"groups": self.groups, "unscored": self.unscored}
        figures = {"evidence_recall": json_number(self.evidence.mean), "reworded": reworded, "cost_usd": cost}
        readers = {name: score_json(score) for name, score in self.by_reader.items()}
        held = {name: json_number(figure.mean) for name, figure in self.stored.items()}
        return values | score_json(self.memory_score) | counts | figures | {"stored": held, "by_reader": readers}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summary:
        """Read what ``as_json`` gave."""
        mean, low, high = map(from_json_number, (values["memory_score"], *values["interval"]))
        known = sum(value is not None for value in values["by_group"].values())
        return _SUMMARY.validate_python({**values, "memory_score": Estimate(mean, low, high, known)})


_SUMMARY = TypeAdapter(Summary)


def score_json(score: Estimate, name: str = "memory_score") -> dict[str, Any]:
    """Return a score of this name, and its interval, as plain JSON values."""
    return {name: json_number(score.mean), "interval": [json_number(score.low), json_number(score.high)]}


def _failed(episodes: Iterable[Episode]) -> tuple[int, int]:
    """Count the writes and the rewritten prompts that could not be read."""
    writes = rewrites = 0
    for stage in (stage for episode in episodes for stage in episode.stages):
        writes += sum(write.error is not None for write in stage.writes)
        rewrites += sum(revision.error is not None for revision in stage.revisions)
    return writes, rewrites


def _stored(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    held: dict[str, list[stored.Stored]] = {score.group: [] for score in evaluation.groups}
    for episode in evaluation.episodes:
        group = evaluation.group_of[episode.task]
        if episode.stored is not None and group in held:
            held[group].append(episode.stored)
    return {group: stored.mean_stored(each) for group, each in held.items()}


def _as_counted(evaluation: Evaluation) -> Ledger:
    """Return what the evaluation took, as AMemGym counts it where that is asked for."""
    ledger = merged([evaluation.ledger])
    if "total_output_tokens" in evaluation.compat:
        ledger.add_ledger(Ledger({role: Spend(output_tokens=s.input_tokens) for role, s in ledger.by_role.items()}))
    return ledger
