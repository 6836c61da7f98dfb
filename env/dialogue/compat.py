"""AMemGym's defects: mended by default, and reproduced where a config's ``compat`` names them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Literal, get_args

from ...data.dialogue.scenario import Question, Scenario
from ...policies.forms import ANY_OBJECT
from ...policies.lm import Completion, Request
from ...policies.lm.base import Wrapper
from ..episode import Episode, StageRecord
from .record import Answer, PeriodRecord, UpperBound, answer_of

Defect = Literal[
    "guessed_answers",
    "strict_replies",
    "replies_without_schema",
    "counted_from_the_end",
    "last_choice_gold",
    "shared_upper_bound",
    "unguarded_score",
    "total_output_tokens",
    "unread_external_probes",
    "choices_with_line_breaks",
    "shifted_letters",
    "lost_evolution_system",
    "doubled_braces",
    "unread_evolved_probes",
    "evolution_after_the_end",
    "unshuffled_choices",
    "final_update_counts",
]
DEFECTS: tuple[Defect, ...] = get_args(Defect)
AMEMGYM = "amemgym"
"""Stands for all of them."""

SEED = 42
"""Of AMemGym's guesses."""

Compat = AbstractSet[Defect]
NONE: Compat = frozenset()

_FENCE = re.compile(r"```json(.*?)```", re.DOTALL)


def parse_strictly(reply: str) -> Any:
    """Return the JSON in the first ```json fence, or that the whole reply is; None when it is none."""
    fence = _FENCE.search(reply)
    try:
        return json.loads(fence[1].strip() if fence else reply)
    except (ValueError, RecursionError):
        return None


class WithoutSchemas(Wrapper):
    """A language model that is asked as AMemGym asks: writes and upper bounds are JSON objects, the rest is text."""

    async def complete(self, request: Request) -> Completion:
        """Ask the inner model."""
        structured = request.form is not None and request.role in ("write", "upper_bound")
        return await self.model.complete(replace(request, form=ANY_OBJECT if structured else None))


def guess_unread(episodes: Sequence[Episode], scenarios: Sequence[Scenario]) -> list[Episode]:
    """Replace answers that could not be read by random choices, drawn in the order of users, periods and questions."""
    rng = random.Random(SEED)
    return [
        replace(episode, stages=tuple(_guess_period(stage, scenario.qas, rng) for stage in episode.stages))
        for episode, scenario in zip(episodes, scenarios, strict=True)
    ]


def guess_unread_bounds(bounds: Mapping[str, UpperBound], scenarios: Sequence[Scenario]) -> dict[str, UpperBound]:
    """Replace upper bound answers that could not be read by random choices, in the order of users and questions."""
    rng = random.Random(SEED)
    return {
        scenario.id: tuple(
            tuple(_guess(answer, question, rng) for answer in answers)
            for answers, question in zip(bounds[scenario.id], scenario.qas, strict=True)
        )
        for scenario in scenarios
        if scenario.id in bounds
    }


def _guess_period(stage: StageRecord, questions: Sequence[Question], rng: random.Random) -> StageRecord:
    if not isinstance(stage, PeriodRecord):
        return stage
    answers = guess_answers(stage.answers, questions, rng)
    guessed = zip(answers, stage.marks, strict=True)
    marks = (replace(answer.mark(mark.check, mark.recalled), calls=mark.calls) for answer, mark in guessed)
    return replace(stage, answers=answers, marks=tuple(marks))


def guess_answers(answers: Sequence[Answer], questions: Sequence[Question], rng: random.Random) -> tuple[Answer, ...]:
    """Replace answers that could not be read by random choices, in the order of questions."""
    return tuple(_guess(answer, question, rng) for answer, question in zip(answers, questions, strict=True))


def _guess(answer: Answer, question: Question, rng: random.Random) -> Answer:
    if answer.choice is not None:
        return answer
    choice = rng.randint(1, len(question.answer_choices)) - 1
    guess = answer_of(answer.raw, choice, answer.gold, question, guessed=True)
    return replace(guess, shown=answer.shown, context=answer.context, calls=answer.calls)
