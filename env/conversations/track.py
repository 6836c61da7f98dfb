"""Conversations as a track: a session is a stage, a user a group; evidence is what people said."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ...data.conversations.load import TRACK, load_conversations
from ...data.conversations.task import ConversationTask, Question
from ...data.conversations.times import day_of
from ...data.folded import FoldedTask, opened
from ...data.task import Check, Task, TaskError
from ...policies.assistant import Assistant
from ...policies.forms import ReplyForm
from ...policies.lm import CallRole, LanguageModel, Message, Request
from ...policies.memory import Context
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates, render
from ..concurrency import both, side_by_side
from ..episode import Bounds, Episode, Mark, RecordError
from ..evidence import pieces_of, recall, stands_in
from ..reading import ReadingRollout, ReadingTrack
from ..slot import SLOT_FORM
from ..statistics import estimate, nan_mean
from ..summary import json_number
from ..track import Cast, Rollout, Usual
from .judge import judged
from .scoring import RIGHT_FROM, RULES, Rule, abstains, read_answer, score_by_rule

Judge = Literal["f1", "exact", "locomo", "model"]
"""Who scores answers: one of the rules, or the model that ``user_model`` names."""
JUDGES: tuple[Judge, ...] = get_args(Judge)
_APART: tuple[Rule, ...] = ("f1", "exact")
"""Rules that score every answer, whoever judges."""


class ConversationsTrack(ReadingTrack[Task]):
    """Memory hears both sides of what was said, session by session, and is asked about it in people's own words.

    A fact is an utterance that a question needs; it is known where memory shows it, whoever reads it.
    """

    name, noun, stage_noun = TRACK, "user", "session"
    usual = Usual(context_tokens=1000)

    def __init__(self, templates: Templates, *, judge: Judge = "f1") -> None:
        """Ask with these texts, and have answers scored by ``judge``."""
        self.templates, self.judge = templates, judge

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[FoldedTask]:
        """Return the histories of a file that ``data import`` has written. Raises TaskError."""
        return load_conversations(source, groups=groups)

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> Rollout:
        """Set up an episode. Raises RecordError where ``replay`` is of another history."""
        history = history_of(task)
        if replay is not None and [list(stage.heard) for stage in replay.stages] != [
            list(self.heard(history, stage)) for stage in range(history.stages)
        ]:
            raise RecordError(f"{self.noun} {task.group}, task {task.id}: another text is recorded")
        return ConversationRollout(self, history, policy, cast)

    def heard(self, task: Task, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return what was said in a session: a user's message with the assistant's replies, or each by itself."""
        rounds: list[tuple[Message, ...]] = []
        for utterance in history_of(task).sessions[stage].utterances:
            message = Message(utterance.role, utterance.heard)
            if utterance.role == "assistant" and rounds:
                rounds[-1] = (*rounds[-1], message)
            else:
                rounds.append((message,))
        return rounds

    def query(self, task: Task, check: Check) -> str:
        """Return how a question is put."""
        return self._put(history_of(task).by_question[check.id], check.text)

    def reworded(self, task: Task, check: Check) -> str | None:
        """Return the same in the other words that the question brings along; None where it brings none."""
        question = history_of(task).by_question[check.id]
        return self._put(question, question.reworded) if question.reworded else None

    def _put(self, question: Question, text: str) -> str:
        day = f"Today is {day_of(question.time)}.\n\n" if question.time else ""
        return render(self.templates.recollect, query=text, today=day)

    def form(self, task: Task, check: Check) -> ReplyForm:
        """Return the form of an answer."""
        return SLOT_FORM

    def given(self, task: Task, check: Check) -> tuple[Message, ...]:
        """Return the utterances that a question needs, as they were heard."""
        history = history_of(task)
        return tuple(Message(u.role, u.heard) for u in map(history.said, check.needs))

    def mark(self, task: Task, check: Check, raw: str) -> Mark:
        """Score a reply by rule."""
        answer, question = read_answer(raw), history_of(task).by_question[check.id]
        rule = next((rule for rule in RULES if rule == self.judge), RULES[0])
        score = score_by_rule(answer, question.answers, rule, kind=question.kind)
        return Mark(check.id, raw, score, readable=answer is not None)

    async def judged(self, task: Task, check: Check, raw: str, judge: LanguageModel) -> Mark:
        """Score a reply as the track's judge does; where a model's verdict cannot be read, the rule's holds."""
        mark = self.mark(task, check, raw)
        if self.judge != "model":
            return mark
        question = history_of(task).by_question[check.id]
        score = await judged(check.text, read_answer(raw), question.answers, model=judge, templates=self.templates)
        return mark if math.isnan(score) else replace(mark, score=score)

    def _is_right(self, task: Task, check: Check, reply: str) -> bool:
        return self.mark(task, check, reply).score >= RIGHT_FROM

    async def bounds(self, task: Task, cast: Cast) -> Bounds:
        """Ask each question with nothing, which is the floor, and with exactly the utterances that it needs."""
        checks = task.checks.values()
        floor, ceiling = await both(
            side_by_side(self._bound(task, check, (), cast) for check in checks),
            side_by_side(self._bound(task, check, self.given(task, check), cast) for check in checks),
        )
        return Bounds({mark.check: mark for mark in floor}, {mark.check: mark for mark in ceiling})

    async def _bound(self, task: Task, check: Check, shown: Sequence[Message], cast: Cast) -> Mark:
        messages = (*shown, Message("user", self.query(task, check)))
        request = Request(messages, role="upper_bound", form=self.form(task, check))
        return await self.judged(task, check, (await cast.assistant.complete(request)).text, cast.user)

    @property
    def _calls_an_answer(self) -> int:
        return 2 if self.judge == "model" else 1

    def question_calls(self, task: Task) -> int:
        """Return a call for each question, and another to judge it where a model does."""
        return self._calls_an_answer * len(task.checks)

    def bound_calls(self, task: Task) -> int:
        """Return the same for the floor and for the ceiling."""
        return 2 * self._calls_an_answer * len(task.checks)

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong answer: what was asked and said, whether memory showed it, and what was answered."""
        history = history_of(task)
        question = history.by_question[mark.check]
        lines = [f"Question: {question.text}"]
        for fact in task.checks[mark.check].needs:
            note = "" if mark.shown.get(fact, True) else " (memory did not show this)"
            lines.append(f'It was said: "{history.said(fact).heard}"{note}')
        if not question.answers:
            lines.append("Nothing that was said answers it.")
        lines += [
            f"Right answer: {' / '.join(question.answers) or 'none'}",
            f"Answer: {read_answer(mark.raw) or 'none'}",
        ]
        return "\n".join(lines)

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return ``FIGURES`` of the answers in complete episodes: by kind with intervals over groups, and by group."""
        kinds: dict[str, _Kind] = {}
        for task, episode in zip(tasks, episodes, strict=True):
            if episode.failure is None:
                history = history_of(task)
                for mark in (mark for stage in episode.stages for mark in stage.marks):
                    question = history.by_question[mark.check]
                    for kind in (ALL, question.kind or OTHER):
                        kinds.setdefault(kind, _Kind()).add(task.group, question, mark)
        if not kinds:
            return {"judge": self.judge}
        by_kind = {kind: kinds[kind].as_json() for kind in sorted(kinds, key=lambda kind: kind != ALL)}
        return {"judge": self.judge, "by_kind": by_kind, "by_group": kinds[ALL].by_group}


ALL, OTHER = "all", "other"
"""All questions together, and those of no kind."""
FIGURES = ("score", "evidence", "f1", "exact", "abstained")
"""Means over answers, in [0, 1]: the judge's score, evidence recall, the scores of two rules, the share that abstains.

All but the judge's and the last are of questions that something which was said answers.
"""


@dataclass(slots=True)
class _Kind:
    """Answers to a kind of questions: each figure by group."""

    questions: int = 0
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, group: str, question: Question, mark: Mark) -> None:
        self.questions += 1
        answer, right = read_answer(mark.raw) or "", question.answers
        f1, exact = (score_by_rule(answer, right, rule) if right else math.nan for rule in _APART)
        values = mark.score, recall(mark.shown), f1, exact, float(abstains(answer))
        for figure, value in zip(FIGURES, values, strict=True):
            self.figures.setdefault(figure, {}).setdefault(group, []).append(value)

    @property
    def by_group(self) -> dict[str, dict[str, float | None]]:
        """Each figure's mean by group; None where it is not known."""
        return {
            figure: {group: json_number(nan_mean(values)) for group, values in of_figure.items()}
            for figure, of_figure in self.figures.items()
        }

    def as_json(self) -> dict[str, Any]:
        return {"questions": self.questions} | {name: _over_groups(each) for name, each in self.figures.items()}


def _over_groups(values: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the mean over groups of their means, with its interval."""
    over = estimate([nan_mean(each) for each in values.values()])
    return {"mean": json_number(over.mean), "interval": [json_number(over.low), json_number(over.high)]}


class ConversationRollout(ReadingRollout[Task]):
    """One history under way; memory is asked for what people ask, without the words around it."""

    def __init__(self, track: ConversationsTrack, task: ConversationTask, policy: MemoryPolicy, cast: Cast) -> None:
        """Begin with the first session."""
        super().__init__(track, task, policy, cast)
        self._history, self._asks = task, track

    async def _answer(self, asker: Assistant, check: Check, text: str, *, role: CallRole = "answer") -> Mark:
        question = self._history.by_question[check.id]
        wanted = question.reworded if text != self.query(check) else question.text
        form = self._asks.form(self.task, check)
        completion, context = await asker.complete([Message("user", text)], wanted, role=role, form=form)
        mark = await self._asks.judged(self.task, check, completion.text, self.user)
        shown = self._shown(check, context)
        return replace(mark, recalled=shown, shown=shown, context=pieces_of(context))

    def _shown(self, check: Check, context: Context) -> dict[str, bool]:
        pieces = pieces_of(context)
        return {fact: stands_in(self._history.said(fact).text, pieces) for fact in check.needs}

    async def _recalled(self, asker: Assistant, stage: int) -> dict[str, bool]:
        """Tell of what the session says and later questions need, whether memory shows it at the session's end."""
        said = {fact.id for fact in self._history.facts.values() if fact.since == stage}
        waiting = [c for c in self._history.checks.values() if c.stage > stage and not said.isdisjoint(c.needs)]
        known: dict[str, bool] = {}
        for check in waiting:
            shown = self._shown(check, await asker.context(check.text))
            known |= {fact: is_shown for fact, is_shown in shown.items() if fact in said}
        return known


def history_of(task: Task) -> ConversationTask:
    """Return a task of the track's. Raises TaskError for another track's."""
    history = opened(task)
    if not isinstance(history, ConversationTask):
        raise TaskError(f"{task.id}: is no history of the {TRACK} track")
    return history
