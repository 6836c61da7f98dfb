"""Ask a language model, check its reply, have it repaired, and keep the good reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ....policies.forms import NUMBER, TEXT, ReplyForm, items, mapping, record
from ....policies.lm import EndpointDown, LanguageModel, LanguageModelError, Message, Request
from ....policies.prompts import render
from ....policies.replies import ReplyError, as_text, read_json_object
from ...concurrency import side_by_side
from .folder import UserFolder
from .plan import GenerationPlan
from .texts import GenerationTexts

T = TypeVar("T")

Reply = dict[str, Any]
Check = Callable[[Reply], T]
"""Returns what a reply says. Raises ReplyError, with a line for each problem, when the reply cannot be used."""

FORMS: Mapping[str, ReplyForm] = {
    kind: ReplyForm.of(kind, schema)
    for kind, schema in {
        "profile": record(name=TEXT, profile=TEXT),
        "questions": record(
            questions=items(
                record(question=TEXT, required_info=items(record(info_type=TEXT, info_choices=items(TEXT))))
            )
        ),
        "merge_schema": mapping(items(TEXT)),
        "unify_choices": mapping(items(TEXT)),
        "update": record(period_summary=TEXT, updated=mapping(TEXT)),
        "events": record(events=items(record(states=items(TEXT), event=TEXT))),
        "answers": record(answers=items(record(variant=NUMBER, answer=TEXT))),
        "refine_answer": record(new_answer=TEXT),
        "first_queries": record(queries=items(record(exposed_states=mapping(TEXT), query=TEXT))),
        "update_queries": record(queries=items(record(event=NUMBER, query=TEXT))),
        "refine_query": record(new_query=TEXT),
    }.items()
}
"""Of the replies whose keys are known before the prompt is."""

LONGEST_SHOWN = 8_000
"""Characters of a bad reply, and of its problems, that the model is shown."""
REPEATS_PER_ROUND = 100
REPEATS_PER_TRIAL = 1_000_000


class Dropped(Exception):  # noqa: N818 - an expected end of one user, not of the run
    """A user cannot be made: the stage, and why."""

    def __init__(self, stage: str, reason: str, *, replied: bool = True) -> None:
        """``replied`` tells whether it was the model's replies: the same would come out of the cache again."""
        super().__init__(f"{stage}: {reason}")
        self.stage = stage
        self.reason = reason
        self.replied = replied


@dataclass(frozen=True, slots=True)
class GenerationPrompt:
    """What is asked: one of the texts, with its slots."""

    kind: str
    slots: dict[str, str]
    """Language and start date are added to them."""
    creative: bool = False
    round: int = 0
    """Tells apart the same question asked again after a failed verification."""
    form: ReplyForm | None = None
    """Of the reply; None is the kind's, ``FORMS``."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What one user is made with: the model, the plan, the texts, and the folder of finished stages."""

    model: LanguageModel
    plan: GenerationPlan
    texts: GenerationTexts
    folder: UserFolder
    finished_stage: Callable[[], None]
    """Called at each stage that is finished."""

    async def stage(self, name: str, prompt: GenerationPrompt, check: Check[T]) -> T:
        """Return what a finished stage says, or ask for it and keep the reply. Raises Dropped when none is usable."""
        kept = self.kept(name, check)
        if kept is not None:
            return kept
        reply, value = await self.ask(name, prompt, check)
        self.keep(name, reply)
        return value

    def kept(self, name: str, check: Check[T]) -> T | None:
        """Return what a stage finished earlier says; None when it is not finished, or its file is damaged."""
        reply = self.folder.read(name)
        if reply is None:
            return None
        try:
            value = check(reply)
        except ReplyError:
            return None
        self.finished_stage()
        return value

    def settled(self, name: str, reply: Reply, check: Check[T]) -> T:
        """Check a stage whose texts were verified one by one as a whole, and keep it. Raises Dropped."""
        try:
            value = check(reply)
        except ReplyError as error:
            problems = "; ".join(_excerpt(str(error)).splitlines())
            raise Dropped(name, f"after verification: {problems}") from None
        self.keep(name, reply)
        return value

    def keep(self, name: str, reply: Reply) -> None:
        """Write a finished stage down."""
        self.folder.write(name, reply)
        self.finished_stage()

    async def ask(
        self, name: str, prompt: GenerationPrompt, check: Check[T], *, lenient: Check[T] | None = None
    ) -> tuple[Reply, T]:
        """Return a reply that passes its check, and what it says; the model is shown a bad reply with its mistakes.

        ``lenient`` checks the last reply instead of ``check``. Raises Dropped when no reply is usable.
        """
        first = self._rendered(prompt)
        messages: tuple[Message, ...] = (Message("user", first),)
        problems = ""
        for attempt in range(self.plan.attempts):
            text = await self._complete(name, messages, prompt, attempt)
            last = attempt == self.plan.attempts - 1
            try:
                reply = read_reply(text)
                return reply, (lenient if last and lenient is not None else check)(reply)
            except ReplyError as error:
                problems = _excerpt(str(error))
            repair = render(self.texts.repair, problems=problems)
            shown = _excerpt(text) or "(nothing)"  # some endpoints refuse an empty message
            messages = (Message("user", first), Message("assistant", shown), Message("user", repair))
        tries = "the only reply" if self.plan.attempts == 1 else f"the last of {self.plan.attempts} replies"
        raise Dropped(name, f"{tries} cannot be used: {'; '.join(problems.splitlines())}")

    async def verdict(self, name: str, prompt: GenerationPrompt) -> str:
        """Return the reply to a verification, as it is."""
        return await self._complete(name, (Message("user", self._rendered(prompt)),), prompt, 0)

    def _rendered(self, prompt: GenerationPrompt) -> str:
        general = {"language": self.plan.language, "start_date": self.plan.start_date.isoformat()}
        slots = self.texts.slots()[prompt.kind]
        filled = {name: value for name, value in general.items() if name in (*slots.required, *slots.optional)}
        return render(getattr(self.texts, prompt.kind), **filled, **prompt.slots)

    async def _complete(self, name: str, messages: tuple[Message, ...], prompt: GenerationPrompt, attempt: int) -> str:
        request = Request(
            messages,
            role="generate",
            form=prompt.form or FORMS[prompt.kind],
            temperature=self.plan.creative_temperature if prompt.creative else self.plan.temperature,
            max_tokens=self.plan.max_tokens,
            repeat=self.folder.trial * REPEATS_PER_TRIAL + prompt.round * REPEATS_PER_ROUND + attempt,
        )
        try:
            return (await self.model.complete(request)).text
        except EndpointDown:
            raise
        except LanguageModelError as error:
            raise Dropped(name, str(error), replied=False) from error


Verify = Callable[[int, Sequence[str], int], Coroutine[Any, Any, str | None]]
"""Says what is wrong with a text, or None. Raises ReplyError when the verdict is unreadable."""
Refine = Callable[[int, Sequence[str], str, int], Coroutine[Any, Any, str]]
"""Writes a text anew, given what is wrong with it."""


async def settle(name: str, texts: Sequence[str], *, verify: Verify, refine: Refine, refinements: int) -> list[str]:
    """Verify texts side by side, and write those that fail anew until they pass.

    All texts finish a round before the next begins, so that the result does not depend on which reply comes first.
    Raises Dropped when a text still fails after ``refinements`` rounds.
    """
    settled = list(texts)
    open_ = list(range(len(texts)))
    for round_ in range(refinements + 1):
        seen = tuple(settled)
        problems = await side_by_side(_verdict(verify, i, seen, round_) for i in open_)
        failed = {i: problem for i, problem in zip(open_, problems, strict=True) if problem is not None}
        if not failed:
            return settled
        if round_ == refinements:
            i, problem = next(iter(failed.items()))
            what = problem or "the verdict cannot be read"
            raise Dropped(name, f"text {i + 1} fails its verification after {refinements} refinements: {what}")
        wrong = {i: problem for i, problem in failed.items() if problem}
        written = await side_by_side(refine(i, seen, problem, round_) for i, problem in wrong.items())
        for i, text in zip(wrong, written, strict=True):
            settled[i] = text
        open_ = list(failed)
    raise AssertionError("the last round returns or raises")


async def _verdict(verify: Verify, i: int, texts: Sequence[str], round_: int) -> str | None:
    """Return what is wrong; empty when the verdict cannot be read, which says nothing against the text."""
    try:
        return await verify(i, texts, round_)
    except ReplyError:
        return ""


def read_reply(text: str) -> Reply:
    """Return the JSON object in a reply; half characters, which files cannot hold, are replaced."""
    try:
        reply: Reply = json.loads(as_text(read_json_object(text)))
    except RecursionError:
        raise ReplyError("the reply is nested too deeply") from None
    return reply


def _excerpt(text: str) -> str:
    clean = as_text(text)
    return clean if len(clean) <= LONGEST_SHOWN else f"{clean[:LONGEST_SHOWN]} ..."
