"""What a search is for, by name: the memory score, what memory shows beside it, or score for what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..data.registry import Registry
from ..env.cost import TurnCost
from ..env.scoring import Measure, StageScore, memory_score
from ..env.summary import Summary
from ..policies.lm.prices import Prices


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a policy on the train groups."""

    score: float
    """Mean memory score."""
    per_turn: TurnCost
    evidence: float = math.nan
    """Evidence recall, in [0, 1]."""
    prices: Prices | None = None
    """Of the assistant's model; None where they are not known."""
    stored: Mapping[str, float] = field(default_factory=dict)
    """What memory holds at the end of a task, means by figure, as ``env.stored`` names them."""


Worth = Callable[[Standing], float | None]
"""Higher is better; None where it is not known."""


def score_and_evidence(stage: StageScore) -> float:
    """Return the mean of a stage's memory score and its evidence recall; the score alone where the other is unknown."""
    return stage.memory_score if math.isnan(stage.evidence) else (stage.memory_score + stage.evidence) / 2


def shown_evidence(stage: StageScore) -> float:
    """Return a stage's evidence recall."""
    return stage.evidence


@dataclass(frozen=True, slots=True)
class Objective:
    """What the evolved policy of the sealed test is best in."""

    worth: Worth
    """Ranks the policies that are surely better than the seed policy; their score is above 0."""
    picks: bool = True
    """Whether it picks one of them; else the leader is the evolved policy."""
    needs_price: bool = False
    """Whether it needs the price of tokens in dollars."""
    measure: Measure = memory_score
    """What candidates are compared by, in races and at looks."""
    compared: str = "memory score"
    """What that is called."""
    by_evidence: bool = False
    """Whether that is evidence recall alone."""
    overall: Callable[[Summary], float] = lambda row: row.memory_score.mean
    """The same of a whole evaluation."""


def dollars(cost: TurnCost, prices: Prices | None) -> float | None:
    """Return US dollars a turn; None where the price is not known."""
    return None if prices is None else prices.cost(cost.input_tokens, cost.output_tokens)


def _per(cost_of: Callable[[Standing], float | None]) -> Worth:
    def worth(standing: Standing) -> float | None:
        cost = cost_of(standing)
        return standing.score / cost if cost is not None and cost > 0 else None

    return worth


def _per_byte(standing: Standing) -> float | None:
    held = standing.stored.get("bytes", math.nan)
    return standing.score / held if held > 0 else None


def _evidence(standing: Standing) -> float | None:
    return None if math.isnan(standing.evidence) else standing.evidence


def _score_and_evidence(row: Summary) -> float:
    score, evidence = row.memory_score.mean, row.evidence.mean
    return score if math.isnan(evidence) else (score + evidence) / 2


OBJECTIVES: Registry[Objective] = Registry(
    "objective",
    "mnemotune.objectives",
    {
        "score": Objective(lambda standing: standing.score, picks=False),
        "score-and-evidence": Objective(
            lambda standing: standing.score,
            picks=False,
            measure=score_and_evidence,
            compared="mean of memory score and evidence recall",
            overall=_score_and_evidence,
        ),
        "score-per-token": Objective(_per(lambda standing: standing.per_turn.tokens)),
        "score-per-call": Objective(_per(lambda standing: standing.per_turn.calls)),
        "score-per-dollar": Objective(
            _per(lambda standing: dollars(standing.per_turn, standing.prices)), needs_price=True
        ),
        "score-per-byte": Objective(_per_byte),
        "evidence": Objective(_evidence),
        "evidence-alone": Objective(
            lambda standing: standing.score,
            picks=False,
            measure=shown_evidence,
            compared="evidence recall",
            by_evidence=True,
            overall=lambda row: row.evidence.mean,
        ),
    },
)
