"""After AMemGym: a policy rewrites its own prompts within a user's life, from feedback on its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from pydantic import ValidationError

from ...data.dialogue.scenario import Period, Question
from ...policies.files import policy_problems
from ...policies.forms import TEXT, ReplyForm, items, record
from ...policies.lm import LanguageModel, Message, Request
from ...policies.policy import Evolution, MemoryPolicy, Target
from ...policies.prompts import Templates, render
from ...policies.replies import ReplyError, as_text
from ..concurrency import side_by_side
from ..episode import Revision
from .compat import Compat, parse_strictly
from .protocol import Protocol, read_object
from .record import Answer

MENDABLE = ("memories", "conversation", "facts")
"""Slots that a rewritten prompt may have lost."""
NEW_TYPES = ReplyForm.of("new_types", record(new_types=TEXT, changes=items(TEXT)))
NEW_PROMPT = ReplyForm.of("new_prompt", record(new_prompt=TEXT, changes=items(TEXT)))

_BRACE = re.compile(r"(\{\w+\})|[{}]")
"""A slot, or another brace."""


@dataclass(frozen=True, slots=True)
class Exam:
    """The questions at the end of a period: what was answered, and what memory brought back for each."""

    questions: Sequence[Question]
    answers: Sequence[Answer]
    memories: Sequence[str]


async def rewrite(
    policy: MemoryPolicy, period: Period, exam: Exam, *, model: LanguageModel, protocol: Protocol
) -> tuple[MemoryPolicy, tuple[Revision, ...]]:
    """Ask the assistant's own model to rewrite a policy's targets; return what came of it, one revision a target.

    A reply that is of no use leaves its prompt as it is. Raises LanguageModelError when a call fails for good.
    """
    evolution = policy.evolution
    if evolution is None:
        return policy, ()
    feedback = tell(evolution, period, exam, compat=protocol.compat)
    calls = [_ask(policy, target, evolution, feedback, protocol) for target in evolution.targets]
    forms = [NEW_TYPES if target == "info_types" else NEW_PROMPT for target in evolution.targets]
    requests = [Request(m, role="propose", form=form) for m, form in zip(calls, forms, strict=True)]
    replies = await side_by_side(model.complete(request) for request in requests)
    revisions = []
    for target, reply in zip(evolution.targets, replies, strict=True):
        policy, revision = _revise(policy, target, reply.text, protocol)
        revisions.append(revision)
    return policy, tuple(revisions)


def tell(evolution: Evolution, period: Period, exam: Exam, *, compat: Compat) -> Any:
    """Return the feedback on a period as plain JSON values, in AMemGym's form.

    An answer is given by its letter; it is null when it could not be read.
    """
    history = []
    for question, answer, memories in zip(exam.questions, exam.answers, exam.memories, strict=True):
        item: dict[str, Any] = {"question": _put(question, with_choices=evolution.feedback == "complete")}
        if evolution.feedback == "complete":
            item["assistant_response"] = _letter_given(answer, question, compat)
        item["retrieved_memories"] = memories
        if evolution.ground_truth:
            item["ground_truth"] = None if answer.gold is None else _letter(answer.gold)
        history.append(item)
    if not evolution.exposed_states:
        return history
    exposed = {info: value for session in period.sessions for info, value in session.exposed_states.items()}
    return {"question_answer_history": history, "user_information_updates": exposed}


def _put(question: Question, *, with_choices: bool) -> str:
    lines = [f"Question: {question.query.strip()}"]
    if with_choices:
        lines += [f"({_letter(i)}) {choice.answer.strip()}" for i, choice in enumerate(question.answer_choices)]
    return ";\n".join(lines) + ";"


def _letter(choice: int) -> str:
    return ascii_uppercase[choice] if choice < len(ascii_uppercase) else str(choice + 1)


def _letter_given(answer: Answer, question: Question, compat: Compat) -> str | None:
    if answer.choice is None:
        return None
    if "shifted_letters" not in compat:
        return _letter(answer.choice)
    value = parse_strictly(answer.raw)
    number = value.get("answer") if isinstance(value, dict) and not answer.guessed else None
    if not isinstance(number, int) or number > len(question.answer_choices):
        number = answer.choice + 1
    return ascii_uppercase[number] if -len(ascii_uppercase) <= number < len(ascii_uppercase) else str(number + 1)


def _ask(
    policy: MemoryPolicy, target: Target, evolution: Evolution, feedback: Any, protocol: Protocol
) -> tuple[Message, ...]:
    texts, compat = protocol.templates, protocol.compat
    forms = {
        "feedback": json.dumps(feedback, ensure_ascii=False, indent=2),
        "feedback_ascii": json.dumps(feedback, indent=2),
    }
    if target == "info_types":
        system = texts.evolve_info_types_guided if evolution.guided else texts.evolve_info_types_system
        if "lost_evolution_system" in compat and not evolution.guided:
            system = ""
        request = render(texts.evolve_info_types, info_types=policy.prompts.info_types or "", **forms)
    else:
        prompt = getattr(policy.prompts, target) or ""
        shown = _doubled(prompt) if "doubled_braces" in compat else prompt
        system = texts.evolve_prompt_system
        request = render(texts.evolve_prompt, name=target, prompt=shown, **forms)
    return Message("system", system), Message("user", request)


def _revise(policy: MemoryPolicy, target: Target, raw: str, protocol: Protocol) -> tuple[MemoryPolicy, Revision]:
    try:
        reply = read_object(raw, protocol.compat)
        text = _new_text(reply, "new_types" if target == "info_types" else "new_prompt")
        if target != "info_types":
            if "doubled_braces" in protocol.compat:
                text = text.replace("{{", "{").replace("}}", "}")
            text = with_lost_slots(policy.prompt_kinds[target], text, protocol.templates)
        prompts = {**policy.prompts.model_dump(), target: text}
        revised = MemoryPolicy.model_validate({**policy.model_dump(), "prompts": prompts})
    except ReplyError as error:
        return policy, Revision(target, None, (), raw, str(error))
    except ValidationError as error:
        return policy, Revision(target, None, (), raw, "; ".join(policy_problems(error)))
    changes = reply.get("changes")
    listed = changes if isinstance(changes, list) else [changes] if changes else []
    return revised, Revision(target, text, tuple(map(as_text, listed)), raw)


def _new_text(reply: Mapping[str, Any], key: str) -> str:
    """Return the rewritten text. Raises ReplyError when there is none."""
    value = reply.get(key)
    if isinstance(value, list):
        value = "\n".join(map(as_text, value))
    if not isinstance(value, str) or not value.strip():
        raise ReplyError(f'the reply has no text "{key}"')
    return value


def with_lost_slots(kind: str, text: str, templates: Templates) -> str:
    """Return a rewritten prompt with the paragraphs of ``lost_slots`` whose slot it needs and lacks.

    The paragraph without a slot is added to a prompt that does not speak of JSON.
    """
    missing = Templates.missing_slots(kind, text)
    for paragraph in templates.lost_slots.split("\n\n"):
        held = [slot for slot in MENDABLE if Templates.has_slot(slot, paragraph)]
        speaks_of_json = "json" in text or "JSON" in text
        if any(slot in missing for slot in held) or (not held and not speaks_of_json):
            text += f"\n\n{paragraph}"
    return text


def _doubled(prompt: str) -> str:
    """Return a prompt as ``str.format`` wants it: every brace that belongs to no slot doubled."""
    return _BRACE.sub(lambda match: match[1] or 2 * match[0], prompt)
