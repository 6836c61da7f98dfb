"""The numbers and texts of the dialogue track's protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ...data.dialogue.scenario import Question, Scenario
from ...policies.lm import LanguageModel
from ...policies.memory.packages.calls import MOST_CALLS
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates, render
from ...policies.replies import ReplyError, read_json_object
from ..track import search_calls
from .choices import LONGEST_ANSWER, choice_of
from .compat import NONE, Compat, WithoutSchemas, parse_strictly


@dataclass(frozen=True, slots=True)
class Protocol:
    """How an episode runs; the defaults are those of AMemGym's v1.base."""

    rounds_init: int = 1
    """Rounds of each session of period 0."""
    rounds_update: int = 2
    """Rounds of each later session."""
    templates: Templates = field(default_factory=Templates.bundled)
    compat: Compat = NONE
    """AMemGym's defects that are reproduced."""

    def asked(self, model: LanguageModel) -> LanguageModel:
        """Return how a model is asked for structured replies."""
        return WithoutSchemas(model) if "replies_without_schema" in self.compat else model

    def rounds(self, period: int) -> int:
        """Return the rounds of each session of a period."""
        return self.rounds_init if period == 0 else self.rounds_update

    def evolves_after(self, period: int, scenario: Scenario) -> bool:
        """Tell whether an evolving policy rewrites its prompts after a period; after the last it has no effect."""
        return period < len(scenario.periods) - 1 or "evolution_after_the_end" in self.compat

    def episode_calls(self, scenario: Scenario, policy: MemoryPolicy) -> int:
        """Return the most calls that one episode can take, upper bound calls left out."""
        rounds = sum(self.rounds(p) * len(period.sessions) for p, period in enumerate(scenario.periods))
        follow_ups = rounds - sum(len(period.sessions) for period in scenario.periods)
        questions = 2 * len(scenario.periods) * len(scenario.qas)
        targets = () if policy.evolution is None else policy.evolution.targets
        rewrites = len(targets) * sum(self.evolves_after(p, scenario) for p in range(len(scenario.periods)))
        searches = search_calls(policy) * (rounds + questions)
        return rounds + follow_ups + questions + rewrites + searches + _most_writes(policy, messages=2 * rounds)


def _most_writes(policy: MemoryPolicy, *, messages: int) -> int:
    """Return the most calls of all writes."""
    if policy.write.mode == "none" or policy.update_every is None or policy.buffer_size is None:
        return 0
    rounds, leaving = messages // 2, max(0, messages - policy.keep_first - policy.buffer_size)
    if policy.backend == "episodes" and leaving >= policy.update_every:
        return rounds + leaving  # each write divides what is there, and each message leaves in one episode
    writes, package = min(rounds, leaving // policy.update_every), MOST_CALLS.get(policy.backend or "")
    if package is not None:
        return package.write * writes + package.message * leaving
    return len({"write", "merge"} & policy.prompt_kinds.keys()) * writes


def upper_bound_calls(scenario: Scenario) -> int:
    """Return the calls that a scenario's upper bound takes: one for each choice of each question."""
    return sum(len(question.answer_choices) for question in scenario.qas)


def answer_prompt(template: str, question: Question, *, compat: Compat = NONE) -> str:
    """Return how a question is put to the assistant."""
    return render(template, query=question.query, choices=_numbered(question, compat))


def upper_bound_prompt(template: str, question: Question, state: Mapping[str, str], *, compat: Compat = NONE) -> str:
    """Return how a question is put with the states behind it given."""
    return render(template, query=question.query, choices=_numbered(question, compat), state=_indented(state))


def probe_prompt(template: str, question: Question, scenario: Scenario) -> str:
    """Return how the assistant is asked for the states behind a question."""
    return schema_prompt(template, question.query, probed(question, scenario))


def probed(question: Question, scenario: Scenario) -> dict[str, Sequence[str]]:
    """Return the states behind a question, each with its possible values."""
    return {info: scenario.state_schema[info] for info in question.required_info}


def schema_prompt(template: str, query: str, schema: Mapping[str, Sequence[str]]) -> str:
    """Return how the assistant is asked which of these values its user's states have."""
    return render(template, query=query, **_schema_slots(schema, ",\n"))


def schema_hints(scenario: Scenario) -> dict[str, str]:
    """Return the names of the states that will be asked for, as the slots of an oracle's prompts have them."""
    names = list(scenario.state_schema)
    return {"schema_names": "\n".join(f"- {name}" for name in names), "schema_list": str(names)}


def user_prompt(template: str, scenario: Scenario, period: int, opening: str, exchange: tuple[str, str]) -> str:
    """Return how the simulated user is asked for the next message; states are not told, only forbidden to tell."""
    said, replied = exchange
    return render(
        template,
        start_date=scenario.start_time.isoformat(),
        profile=scenario.user_profile.formatted_str,
        current_date=scenario.periods[period].period_end.isoformat(),
        query=opening,
        exchange=f"User: {said}\nAssistant: {replied}",
        **_schema_slots(scenario.state_schema, "\n"),
    )


def read_answer(reply: str, question: Question, *, compat: Compat = NONE) -> int | None:
    """Return the 0-based choice that a reply names; None when it names none."""
    said, count = _read_object(reply, compat), len(question.answer_choices)
    number = None if said is None else said.get("answer")
    if "strict_replies" not in compat:
        choices = [choice.answer for choice in question.answer_choices]
        whole = reply if len(reply) <= LONGEST_ANSWER else ""
        number = choice_of(whole if said is None else said.get("answer", said), choices)
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    if "counted_from_the_end" in compat and -count < number <= 0:
        return count + number - 1
    return number - 1 if 1 <= number <= count else None


def read_probe(reply: str, *, compat: Compat = NONE) -> dict[str, str] | None:
    """Return the values that a reply names; None when it cannot be read."""
    values = _read_object(reply, compat)
    if values is None or "strict_replies" in compat:
        return None if values is None else {key: value for key, value in values.items() if isinstance(value, str)}
    inner = [value for value in values.values() if isinstance(value, dict)]
    fields = {**inner[0], **values} if len(inner) == len(values) == 1 else values
    return {key: text for key, value in fields.items() if (text := _only_text(value)) is not None}


def _only_text(value: object) -> str | None:
    """Return a text, alone or as all that a list or an object holds."""
    held = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return held[0] if len(held) == 1 and isinstance(held[0], str) else None


def gold_choice(question: Question, state: Mapping[str, str], *, compat: Compat = NONE) -> int | None:
    """Return the 0-based choice that is right in a state; None when none is."""
    gold = question.gold(state)
    if gold is None and "last_choice_gold" in compat and question.answer_choices:
        return len(question.answer_choices) - 1
    return gold


def read_object(reply: str, compat: Compat, *, partial: bool = False) -> dict[str, Any]:
    """Return the JSON object in a reply, as ``read_json_object`` has it. Raises ReplyError when there is none."""
    if "strict_replies" not in compat:
        return read_json_object(reply, whole_from=2 if partial else None)
    value = parse_strictly(reply)
    if isinstance(value, dict):
        return value
    raise ReplyError("the reply is no JSON object, neither whole nor in a ```json fence")


def _read_object(reply: str, compat: Compat) -> dict[str, Any] | None:
    try:
        return read_object(reply, compat, partial=True)
    except ReplyError:
        return None


def _numbered(question: Question, compat: Compat) -> str:
    line_break = "\n" if "choices_with_line_breaks" in compat else " "
    choices = (choice.answer.replace("\n", line_break) for choice in question.answer_choices)
    return "\n".join(f"{i}: {choice}" for i, choice in enumerate(choices, 1))


def _schema_slots(schema: Mapping[str, Sequence[str]], separator: str) -> Mapping[str, str]:
    return _slots_of(tuple((info, tuple(values)) for info, values in schema.items()), separator)


@lru_cache(maxsize=1 << 10)
def _slots_of(schema: tuple[tuple[str, tuple[str, ...]], ...], separator: str) -> Mapping[str, str]:
    lines = (f"{_in_a_line(info)}: {_in_a_line(values)}" for info, values in schema)
    return {"schema": separator.join(lines), "schema_json": _indented(dict(schema))}


def _in_a_line(value: object) -> str:
    """Return how a value stands in a prompt, in a line."""
    return json.dumps(value, ensure_ascii=False)


def _indented(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, indent=2)
