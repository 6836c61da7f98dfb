"""A model that judges whether a free-form answer is right."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...policies.forms import number_form
from ...policies.lm import LanguageModel, Message, Request
from ...policies.prompts import Templates, render
from ...policies.replies import ReplyError, read_json_object
from .scoring import NOT_SAID

RIGHT, WRONG = 1, 2
"""The numbers of the verdicts in the prompt."""


def judge_prompt(question: str, answer: str, right: Sequence[str], templates: Templates) -> str:
    """Return what a judge is asked."""
    listed = " / ".join(right) or f"{NOT_SAID}: nothing that was said answers the question"
    return render(templates.judge, query=question, right=listed, answer=answer)


async def judged(
    question: str, answer: str | None, right: Sequence[str], *, model: LanguageModel, templates: Templates
) -> float:
    """Return 1 for an answer that a model finds right, 0 for another, and NaN where its verdict cannot be read.

    What is a right answer but for case and space around it is not asked for.
    """
    if answer is None:
        return 0.0
    if answer.strip().casefold() in (each.strip().casefold() for each in right or (NOT_SAID,)):
        return 1.0
    prompt = judge_prompt(question, answer, right, templates)
    reply = await model.complete(Request((Message("user", prompt),), role="judge", form=number_form(WRONG)))
    return verdict_of(reply.text)


def verdict_of(reply: str) -> float:
    """Return the score that a judge's reply gives; NaN where it gives none."""
    try:
        number = read_json_object(reply)["answer"]
    except (ReplyError, KeyError):
        return math.nan
    scores = {str(RIGHT): 1.0, str(WRONG): 0.0}
    return scores.get(str(number).strip(), math.nan)
