"""How well rules and a model agree with people on whether a free-form answer is right.

python -m mnemotune.experiments.conversations.judge [--rows LABELLED.jsonl] [--model openai:NAME]

Each row has a question, its right answers (none: nothing that was said answers it), an answer, and whether a person
finds it right. The rows that ship were written and labelled by hand for this.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ...data.conversations.omissions import field_of
from ...data.resources import resource
from ...data.row_files import rows_of
from ...data.task import TaskError
from ...env.concurrency import side_by_side
from ...env.conversations.judge import judged
from ...env.conversations.scoring import RIGHT_FROM, score_by_rule
from ...env.statistics import Estimate, estimate
from ...optimizer.cli.common import settings_of
from ...optimizer.models import open_models
from ...optimizer.views.table import markdown_lines, with_interval
from ...policies.lm import LanguageModel
from ...policies.prompts import Templates
from ..command import run


@dataclass(frozen=True, slots=True)
class Labelled:
    """An answer that a person has judged."""

    question: str
    right: tuple[str, ...]
    answer: str
    is_right: bool

    @classmethod
    def of(cls, row: Any) -> Labelled:
        """Read a row. Raises ValueError naming the field."""
        label = row.get("is_right") if isinstance(row, dict) else None
        if not isinstance(label, bool):
            raise ValueError("is_right: must be true or false")
        right = tuple(map(str, field_of(row, "right", list, "a list of texts")))
        return cls(field_of(row, "question", str, "a text"), right, field_of(row, "answer", str, "a text"), label)


def read_labelled(path: Path) -> list[Labelled]:
    """Read labelled rows. Raises TaskError naming the row and the field."""
    rows = list[Labelled]()
    for number, row in enumerate(rows_of(path)):
        try:
            rows.append(Labelled.of(row))
        except ValueError as error:
            raise TaskError(f"{path}: row {number}: {error}") from None
    return rows


async def verdicts_of(rows: Sequence[Labelled], model: LanguageModel, templates: Templates) -> list[bool | None]:
    """Return whether a model finds each answer right; None where its verdict cannot be read."""
    scores = await side_by_side(
        judged(row.question, row.answer, row.right, model=model, templates=templates) for row in rows
    )
    return [None if math.isnan(score) else score == 1 for score in scores]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a judge's verdicts stand to people's."""

    share: Estimate
    """Share of rows on which both agree, over questions; an unread verdict agrees with nobody."""
    kappa: float
    """Cohen's: agreement beyond chance, at most 1; NaN where chance alone agrees always."""
    unread: int

    @classmethod
    def of(cls, rows: Sequence[Labelled], verdicts: Sequence[bool | None]) -> Agreement:
        """Compare verdicts with the labels of the rows, with which they are aligned."""
        by_question: dict[str, list[float]] = {}
        for row, verdict in zip(rows, verdicts, strict=True):
            by_question.setdefault(row.question, []).append(float(verdict == row.is_right))
        agreed = sum(map(sum, by_question.values())) / len(rows)
        people, judge = (sum(map(bool, each)) / len(rows) for each in ([row.is_right for row in rows], verdicts))
        chance = people * judge + (1 - people) * (1 - judge)
        kappa = (agreed - chance) / (1 - chance) if chance < 1 else math.nan
        share = estimate([sum(each) / len(each) for each in by_question.values()])
        return cls(share, kappa, sum(verdict is None for verdict in verdicts))


def by_rules(rows: Sequence[Labelled]) -> Mapping[str, list[bool]]:
    """Return the verdicts of the rules, by name."""
    return {
        "exact": [score_by_rule(row.answer, row.right, "exact") == 1 for row in rows],
        "f1": [score_by_rule(row.answer, row.right, "f1") >= RIGHT_FROM for row in rows],
    }


def main(
    rows: Annotated[Path | None, typer.Option(help="Labelled rows; those that ship by default.")] = None,
    model: Annotated[str, typer.Option(help="Who judges: embedded, openai:NAME.")] = "embedded",
    config: Annotated[Path | None, typer.Option(help="A config for the endpoint and the judge's prompt.")] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the judge's replies.")] = None,
) -> None:
    """Compare the rules and a model with the labels."""
    settings = settings_of(config, model=model)
    labelled = read_labelled(rows or Path(str(resource("experiments", "conversations", "labelled.jsonl"))))
    with open_models(settings, folder=out) as models:

        async def judge() -> list[bool | None]:
            async with aclosing(models):
                return await verdicts_of(labelled, models.cast.assistant, settings.templates)

        verdicts: Mapping[str, Sequence[bool | None]] = {**by_rules(labelled), model: asyncio.run(judge())}
    agreements = {name: Agreement.of(labelled, each) for name, each in verdicts.items()}
    questions, right = len({row.question for row in labelled}), sum(row.is_right for row in labelled)
    print(f"\n{len(labelled)} answers to {questions} questions, {right} of them right\n")
    cells = [(name, with_interval(a.share), f"{a.kappa:.2f}", str(a.unread)) for name, a in agreements.items()]
    print("\n".join(markdown_lines(("judge", "agrees with the labels", "kappa", "unread"), cells)))


if __name__ == "__main__":
    run(main)
