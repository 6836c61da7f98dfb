"""Questions that a model makes on conversations; each is kept only where its evidence, and nothing less, answers it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...data.conversations.task import ConversationTask, Question, Utterance
from ...policies.forms import NUMBER, TEXT, ReplyForm, items, record
from ...policies.lm import EndpointDown, LanguageModel, LanguageModelError, Message, Request
from ...policies.prompts import Templates, render
from ...policies.replies import ReplyError, read_json_object
from ..concurrency import side_by_side
from ..slot import SLOT_FORM
from .scoring import RIGHT_FROM, normalised, read_answer, score_by_rule

MOST_TOKENS = 1_000
"""Of a part of a conversation on which a question is made."""
TRIES = 3
"""Parts that are tried at most for each question that is wanted."""
CALLS = 3
"""Calls a try: it is made, asked with its evidence, and asked with nothing."""
FORM = ReplyForm.of("question", record(question=TEXT, answer=TEXT, evidence=items(NUMBER)))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a session."""

    task: ConversationTask
    stage: int
    utterances: tuple[Utterance, ...]

    @property
    def text(self) -> str:
        """The messages, each after its number from 1."""
        return "\n".join(f"{number}. {_said(u)}" for number, u in enumerate(self.utterances, 1))


def _said(utterance: Utterance) -> str:
    return utterance.heard if utterance.speaker else f"{utterance.role}: {utterance.heard}"


@dataclass(frozen=True, slots=True)
class DroppedQuestion:
    """A question that is not asked, and why."""

    group: str
    session: str
    question: str
    """Empty where no question came."""
    reason: str

    def as_json(self) -> dict[str, str]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class MadeQuestions:
    """What was kept, by group, and what was dropped."""

    kept: dict[str, list[Question]]
    dropped: tuple[DroppedQuestion, ...]

    @property
    def count(self) -> int:
        """How many questions were kept."""
        return sum(map(len, self.kept.values()))


def most_calls(wanted: int) -> int:
    """Return the most calls that so many questions take."""
    return wanted * TRIES * CALLS


def excerpts_of(tasks: Sequence[ConversationTask], *, seed: int = 0) -> list[Excerpt]:
    """Return parts of all conversations, first one of each group, then another, in an order that the seed draws."""
    parts = [(task, _parts(task)) for task in tasks]
    shuffled = [random.Random(f"{seed}:{task.id}").sample(each, len(each)) for task, each in parts]
    longest = max(map(len, shuffled), default=0)
    return [each[place] for place in range(longest) for each in shuffled if place < len(each)]


def _parts(task: ConversationTask) -> list[Excerpt]:
    parts = list[Excerpt]()
    for stage, session in enumerate(task.sessions):
        part, size = list[Utterance](), 0
        for utterance in session.utterances:
            tokens = Message(utterance.role, utterance.heard).tokens
            if part and size + tokens > MOST_TOKENS:
                parts.append(Excerpt(task, stage, tuple(part)))
                part, size = [], 0
            part.append(utterance)
            size += tokens
        if part:
            parts.append(Excerpt(task, stage, tuple(part)))
    return parts


async def make_questions(
    tasks: Sequence[ConversationTask],
    wanted: int,
    model: LanguageModel,
    *,
    templates: Templates,
    tell: Callable[[int, int], None] = lambda kept, dropped: None,
) -> MadeQuestions:
    """Have a model make so many questions, fewer where too many have to be dropped.

    ``tell`` hears how many are kept and dropped so far. Raises BudgetExhausted and EndpointDown.
    """
    excerpts = excerpts_of(tasks)[: wanted * TRIES]
    kept: dict[str, list[Question]] = {}
    dropped, asked, place, count = list[DroppedQuestion](), set[tuple[str, str]](), 0, 0
    while count < wanted and place < len(excerpts):
        batch = excerpts[place : place + wanted - count]
        place += len(batch)
        outcomes = await side_by_side(_tried(excerpt, model, templates) for excerpt in batch)
        for excerpt, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, DroppedQuestion):
                dropped.append(outcome)
            elif (excerpt.task.group, normalised(outcome.text)) in asked:
                dropped.append(_dropped(excerpt, outcome.text, "it is asked already"))
            else:
                asked.add((excerpt.task.group, normalised(outcome.text)))
                kept.setdefault(excerpt.task.group, []).append(outcome)
                count += 1
        tell(count, len(dropped))
    return MadeQuestions(kept, tuple(dropped))


async def _tried(excerpt: Excerpt, model: LanguageModel, templates: Templates) -> Question | DroppedQuestion:
    """Have a question made and check it; say why it is dropped."""
    try:
        reply = await _asked(model, (Message("user", render(templates.make_question, excerpt=excerpt.text)),), FORM)
        question = _read(excerpt, reply)
    except EndpointDown:
        raise
    except (ReplyError, LanguageModelError) as error:
        return _dropped(excerpt, "", str(error))
    try:
        problem = await _problem(excerpt, question, model, templates)
    except EndpointDown:
        raise
    except LanguageModelError as error:
        problem = str(error)
    return question if problem is None else _dropped(excerpt, question.text, problem)


def _dropped(excerpt: Excerpt, question: str, reason: str) -> DroppedQuestion:
    session = excerpt.task.sessions[excerpt.stage].id
    return DroppedQuestion(excerpt.task.group, session, question, " ".join(reason.split()))


def _read(excerpt: Excerpt, reply: str) -> Question:
    """Return the question of a reply. Raises ReplyError."""
    values = read_json_object(reply)
    text, answer, numbers = (values.get(name) for name in ("question", "answer", "evidence"))
    if not isinstance(text, str) or not text.strip():
        raise ReplyError("the reply has no question")
    if not isinstance(answer, str | int | float) or not str(answer).strip():
        raise ReplyError("the reply has no answer")
    known = range(1, len(excerpt.utterances) + 1)
    whole = isinstance(numbers, list) and all(isinstance(number, int) and number in known for number in numbers)
    if not numbers or not whole:
        raise ReplyError("the evidence names no message of the conversation")
    evidence = tuple(excerpt.utterances[number - 1].id for number in sorted({*numbers}))
    kind = "several messages" if len(evidence) > 1 else "one message"
    name = f"made {excerpt.utterances[0].id}"
    return Question(name, text.strip(), (str(answer).strip(),), evidence, excerpt.task.stages - 1, kind)


async def _problem(excerpt: Excerpt, question: Question, model: LanguageModel, templates: Templates) -> str | None:
    """Return what is wrong with a question; None where its evidence answers it, and nothing does not."""
    answer = question.answers[0]
    if f" {normalised(answer)} " in f" {normalised(question.text)} ":
        return "it gives its own answer"
    put = Message("user", render(templates.recollect, query=question.text, today=""))
    shown = [excerpt.task.places[name][1] for name in question.evidence]
    supported = await _asked(model, (*(Message(u.role, u.heard) for u in shown), put), SLOT_FORM)
    if not _is_right(supported, question):
        said = read_answer(supported) or "nothing"
        return f"its evidence does not support it: shown that alone, the model answers {said!r}, not {answer!r}"
    blind = await _asked(model, (put,), SLOT_FORM)
    if _is_right(blind, question):
        return f"it needs no memory: shown nothing, the model answers {read_answer(blind)!r}"
    return None


def _is_right(reply: str, question: Question) -> bool:
    return score_by_rule(read_answer(reply), question.answers, "f1") >= RIGHT_FROM


async def _asked(model: LanguageModel, messages: tuple[Message, ...], form: ReplyForm) -> str:
    return (await model.complete(Request(messages, role="generate", form=form))).text


def as_lines(questions: MadeQuestions) -> list[dict[str, Any]]:
    """Return kept questions as lines of a file of questions of one's own."""
    return [
        {
            "id": question.id,
            "user": group,
            "question": question.text,
            "answer": question.answers[0],
            "evidence": list(question.evidence),
            "kind": question.kind,
        }
        for group, asked in questions.kept.items()
        for question in asked
    ]
