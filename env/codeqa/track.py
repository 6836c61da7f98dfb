"""The code questions as a track: a part of the files is a stage, a package a group; after MemGym's MEMGYM-CODEQA."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...data.codeqa.literals import same_literal
from ...data.codeqa.load import TRACK, load_folded
from ...data.codeqa.memgym import LEAST_STATED, stated
from ...data.codeqa.questions import states
from ...data.codeqa.task import CodeTask
from ...data.folded import FoldedTask
from ...data.task import Check, Fact, Task, TaskError
from ...policies.forms import ReplyForm
from ...policies.lm import Message
from ...policies.prompts import Templates
from ..episode import Bounds, Episode, Mark
from ..reading import ObservingTrack
from ..slot import SLOT_FORM, read_slot, slot_query, slot_query_reworded
from ..statistics import nan_mean
from ..track import FactPrompt, Usual


class CodeTrack(ObservingTrack[Task]):
    """Memory reads excerpts of files, and is asked for values that stood in them; answers are right or wrong.

    On MemGym's rows an answer is a text, whose score is the share of the linked facts that it states.
    """

    name, noun, stage_noun = TRACK, "package", "part"
    usual = Usual("generated:50@7", context_tokens=1000)

    def __init__(self, templates: Templates) -> None:
        """``templates`` has the texts that put a question."""
        self._templates = templates

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[FoldedTask]:
        """Return the tasks that a source names, as ``load_folded`` has it. Raises TaskError."""
        return load_folded(source, groups=groups)

    def heard(self, task: Task, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return the excerpts and diffs of a stage, one after another."""
        return [(Message("user", text),) for text in code_task(task).observations[stage]]

    def form(self, task: Task, check: Check) -> ReplyForm:
        """Return the form of a value."""
        return SLOT_FORM

    def query(self, task: Task, check: Check) -> str:
        """Return how a question is put."""
        return slot_query(check.text, self._templates)

    def reworded(self, task: Task, check: Check) -> str:
        """Return how a question is put in other words."""
        return slot_query_reworded(check.text, self._templates)

    def given(self, task: Task, check: Check) -> tuple[Message, ...]:
        """Return each needed fact as an excerpt of its own."""
        return tuple(Message("user", task.facts[fact].text) for fact in check.needs)

    def mark(self, task: Task, check: Check, raw: str) -> Mark:
        """Score the value that a reply names."""
        value = read_slot(raw)
        if value is None:
            return Mark(check.id, raw, 0.0, readable=False)
        return Mark(check.id, raw, _score(code_task(task), check, value))

    def recalled(self, task: Task, check: Check, mark: Mark) -> Mapping[str, bool | None]:
        """Return which facts a reply shows to be known: the only one, or those that a text states."""
        code, value = code_task(task), read_slot(mark.raw)
        if not code.literal:
            return {fact: value is not None and _states(value, code.values[fact]) for fact in check.needs}
        return super().recalled(task, check, mark)

    def fact_probes(self, task: Task, check: Check) -> Mapping[str, FactPrompt]:
        """Return the question for each fact of a check that needs several, whose answer does not show them all."""
        if len(check.needs) == 1 or not code_task(task).literal:
            return {}
        return {fact: self._fact_prompt(task, task.facts[fact]) for fact in check.needs}

    def fact_prompts(self, task: Task, fact: Fact) -> Iterator[FactPrompt]:
        """Yield the question for a fact alone; where answers are texts, each question that needs it."""
        if code_task(task).literal:
            yield self._fact_prompt(task, fact)
        else:
            yield from super().fact_prompts(task, fact)

    def states(self, task: Task, fact: Fact, text: str) -> bool:
        """Tell whether a text states a fact: its value stands in a line with its name, or most of its words do."""
        code = code_task(task)
        return states(text, fact, code.values[fact.id]) if code.literal else _states(text, code.values[fact.id])

    def _fact_prompt(self, task: Task, fact: Fact) -> FactPrompt:
        code = code_task(task)
        question = slot_query(code.questions[fact.id], self._templates)
        return FactPrompt(question, partial(_is_value, code.values[fact.id]), SLOT_FORM)

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong answer: what was asked, the texts that told it, and what was answered."""
        check, code = task.checks[mark.check], code_task(task)
        read = [f"Memory had read:\n{text}" for fact in check.needs for text in task.facts[fact].sources]
        return "\n".join(
            [f"Question: {check.text}", *read, f"Right answer: {code.answer(check)}", f"Answer: {read_slot(mark.raw)}"]
        )

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return MemGym's scores, means over all answers of the complete episodes; null where nothing was asked.

        Accuracy; the share of needed facts that were recalled: of all, of the critical ones, and of the external ones,
        which the source tree does not show; and 1 less the share of distractors whose value was the answer.
        """
        figures: dict[str, list[float]] = {name: [] for name in FIGURES}
        for task, episode in zip(tasks, episodes, strict=True):
            if episode.failure is None:
                for mark in (mark for stage in episode.stages for mark in stage.marks):
                    _count(figures, code_task(task), task.checks[mark.check], mark)
        means = {name: nan_mean(values) for name, values in figures.items()}
        return {"codeqa": {name: None if math.isnan(mean) else round(mean, 6) for name, mean in means.items()}}


FIGURES = ("accuracy", "fact_recall", "critical_recall", "external_recall", "noise_rejection")


def code_task(task: Task) -> CodeTask:
    """Return a task of the code questions. Raises TaskError for another track's."""
    opened = task.opened if isinstance(task, FoldedTask) else task
    if not isinstance(opened, CodeTask):
        raise TaskError(f"{task.id}: is no task of the codeqa track")
    return opened


def _score(task: CodeTask, check: Check, value: str) -> float:
    if task.literal:
        return float(same_literal(value, task.answer(check)))
    return sum(_states(value, task.values[fact]) for fact in check.needs) / len(check.needs)


def _is_value(right: str, reply: str) -> bool:
    value = read_slot(reply)
    return value is not None and same_literal(value, right)


def _states(text: str, content: str) -> bool:
    return stated(text, content) >= LEAST_STATED


def _count(figures: Mapping[str, list[float]], task: CodeTask, check: Check, mark: Mark) -> None:
    """Add what an answer says to each figure."""
    value = read_slot(mark.raw)
    right = mark.score if task.literal else float(mark.score >= 0.5)  # MemGym counts an answer from half its facts on
    figures["accuracy"].append(right)
    for fact, known in mark.recalled.items():
        if known is not None:
            figures["fact_recall"].append(known)
            figures["critical_recall"] += [known] if fact in task.critical else []
            figures["external_recall"] += [known] if fact in task.external else []
    for distractor in task.distractors[check.question]:
        figures["noise_rejection"].append(value is None or not _is_misled(task, check, value, distractor))


def _is_misled(task: CodeTask, check: Check, value: str, distractor: str) -> bool:
    """Tell whether an answer is a distractor's; a text is where it states that better than any fact it should."""
    if task.literal:
        return same_literal(value, distractor)
    share = stated(value, distractor)
    return share >= LEAST_STATED and all(share > stated(value, task.values[fact]) for fact in check.needs)
