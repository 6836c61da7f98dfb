"""What a reply of each stage must be: a check lists every problem, so that a single repair can mend them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....data.dialogue.scenario import State
from ....policies.replies import ReplyError
from .asking import Reply, read_reply
from .plan import MOST_STATES_A_MESSAGE, GenerationPlan
from .problems import LONGEST_NAME, LONGEST_TEXT, Problems, Schema, named, short, whole_number

UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Beginnings of the names of characters in scripts whose words nothing, or not a space alone, parts from the next."""
SHORTEST_GIVEAWAY = 4
"""Characters from which on a value in a script without spaces may not stand in an answer."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question as first thought of."""

    question: str
    infos: dict[str, tuple[str, ...]]
    """Info types it needs, with their choices."""


@dataclass(frozen=True, slots=True)
class PeriodChange:
    """What a period changes, and why."""

    summary: str
    updated: State


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """What happens, and the info types that it changes."""

    states: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Opening:
    """A message that opens a session, and the states that it tells."""

    exposed: State
    query: str


def check_person(reply: Reply) -> tuple[str, str]:
    """Return name and description."""
    with Problems() as problems:
        name = problems.text(reply.get("name"), '"name"', longest=LONGEST_NAME)
        profile = problems.text(reply.get("profile"), '"profile"')
    return name, profile


def check_drafts(reply: Reply, plan: GenerationPlan) -> list[Draft]:
    """Return the questions."""
    with Problems() as problems:
        listed = problems.items(reply.get("questions"), '"questions"')
        if isinstance(reply.get("questions"), list) and len(listed) != plan.questions:
            problems.append(f"there are {len(listed)} questions; {plan.questions} are wanted")
        drafts = [_draft(item, f"question {q}", plan, problems) for q, item in enumerate(listed, 1)]
        problems.distinct([draft.question for draft in drafts], "questions")
    return drafts


def _draft(item: Any, where: str, plan: GenerationPlan, problems: Problems) -> Draft:
    fields = problems.fields(item, where)
    question = problems.text(fields.get("question"), f'{where}: "question"')
    listed = problems.items(fields.get("required_info"), f'{where}: "required_info"')
    names, infos = [], {}
    for place, info in problems.rows(listed, f"{where}, info type"):
        name = problems.text(info.get("info_type"), f'{place}: "info_type"', longest=LONGEST_NAME)
        names.append(name)
        infos[name] = _choices(info.get("info_choices"), f"{where}, {short(name)}", plan, problems)
    if len(listed) != plan.states_per_question:
        problems.append(f"{where} has {len(listed)} info types; {plan.states_per_question} are wanted")
    problems.distinct(names, f"{where}: info types")
    return Draft(question, infos)


def _choices(value: Any, where: str, plan: GenerationPlan, problems: Problems) -> tuple[str, ...]:
    listed = problems.items(value, f"{where}: the choices")
    choices = [problems.text(c, f"{where}: choice {i}", longest=LONGEST_NAME) for i, c in enumerate(listed, 1)]
    if len(choices) != plan.choices_per_state:
        problems.append(f"{where} has {len(choices)} choices; {plan.choices_per_state} are wanted")
    problems.distinct(choices, f"{where}: choices")
    return tuple(choices)


def check_merge(reply: Reply, drafts: Sequence[Draft]) -> dict[str, str]:
    """Return the new name of each info type."""
    with Problems() as problems:
        old = list(dict.fromkeys(name for draft in drafts for name in draft.infos))
        renamed: dict[str, str] = {}
        covered: list[str] = []
        for key, names in reply.items():
            new = problems.text(key, "a new info type", longest=LONGEST_NAME)
            listed = [problems.text(n, f"{short(new)}: an old info type") for n in problems.items(names, short(new))]
            if not listed and isinstance(names, list):
                problems.append(f"{short(new)} stands for no info type")
            covered += listed
            renamed |= dict.fromkeys(listed, new)
        problems.distinct(covered, "old info types")
        problems.keys(covered, old, "old info types")
        problems.distinct([" ".join(key.split()) for key in reply], "new info types")
        for q, draft in enumerate(drafts, 1):
            same = Counter(renamed[name] for name in draft.infos if name in renamed)
            problems += [
                f"question {q}: its info types all became {short(n)}" for n, count in same.items() if count > 1
            ]
    return renamed


def check_choices(reply: Reply, infos: Collection[str], plan: GenerationPlan) -> Schema:
    """Return the unified choices of each info type."""
    with Problems() as problems:
        problems.keys(reply, infos, "info types")
        return {info: _choices(reply[info], short(info), plan, problems) for info in infos if info in reply}


def check_initial(reply: Reply, schema: Schema) -> State:
    """Return the initial state, in the schema's order."""
    with Problems() as problems:
        problems.keys(reply, schema, "properties")
        values = problems.values(reply, schema, "values")
    return {info: values[info] for info in schema}


def check_change(
    reply: Reply, state: State, schema: Schema, *, changed: Mapping[str, int], plan: GenerationPlan
) -> PeriodChange:
    """Return what changes; ``changed`` tells how often each state has changed so far."""
    with Problems() as problems:
        summary = problems.text(reply.get("period_summary"), '"period_summary"')
        updated = problems.fields(reply.get("updated"), '"updated"')
        low = max(1, min(plan.changes_per_period - 1, len(schema)))
        high = min(plan.changes_per_period + 1, len(schema))
        if isinstance(reply.get("updated"), dict) and not low <= len(updated) <= high:
            problems.append(f"{len(updated)} properties change; from {low} to {high} may")
        problems += [f"{short(key)} is no property; change others" for key in updated if key not in schema]
        values = problems.values(updated, schema, "updated")
        problems += [f"{key} has the value {value} already" for key, value in values.items() if state[key] == value]
        used_up = [key for key in values if changed.get(key, 0) >= plan.changes_per_state]
        if used_up and sum(changed.get(key, 0) < plan.changes_per_state for key in schema) >= low:
            problems.append(
                f"{', '.join(used_up)} changed {plan.changes_per_state} times or more already; change others"
            )
    return PeriodChange(summary, {key: values[key] for key in schema if key in values})


def check_events(reply: Reply, updated: Collection[str]) -> list[LifeEvent]:
    """Return the events; each changed state belongs to exactly one."""
    with Problems() as problems:
        events = []
        for place, fields in problems.rows(problems.items(reply.get("events"), '"events"'), "event"):
            given = fields.get("states")
            listed = list(given) if isinstance(given, dict) else problems.items(given, f'{place}: "states"')
            states = tuple(problems.text(key, f"{place}: a property") for key in listed)
            if not states:
                problems.append(f"{place} changes no property")
            events.append(LifeEvent(states, problems.text(fields.get("event"), f'{place}: "event"')))
        covered = [key for event in events for key in event.states]
        problems.keys(covered, updated, "properties of the events")
        problems.distinct(covered, "properties of the events")
    return events


def check_answers(reply: Reply, variants: Sequence[Sequence[str]]) -> list[str]:
    """Return the answers, one for each variant."""
    with Problems() as problems:
        listed = problems.items(reply.get("answers"), '"answers"')
        answers = _numbered(listed, problems, by="variant", text="answer", called="answer", most=len(variants))
        for number, text in answers.items():
            named_values = giveaways(text, variants[number - 1])
            problems += [f"the answer of variant {number} names the value {value}" for value in named_values]
        problems.distinct(list(answers.values()), "answers")
    return [answers[number] for number in range(1, len(variants) + 1)]


def _numbered(
    items: Sequence[Any], problems: Problems, *, by: str, text: str, called: str, most: int
) -> dict[int, str]:
    """Return the texts by their numbers from 1 to ``most``; note which are unknown, there twice or missing."""
    texts: dict[int, str] = {}
    for item in items:
        fields = problems.fields(item, f"an item with {by} and {text}")
        if not fields:
            continue
        number = whole_number(fields.get(by))
        if number is None or not 1 <= number <= most:
            problems.append(f"{named(fields.get(by))} is no {by}; 1 to {most} are")
        elif number in texts:
            problems.append(f"{by} {number} has more than one {called}")
        else:
            texts[number] = problems.text(fields.get(text), f"the {called} of {by} {number}")
    problems += [f"{by} {n} has no {called}" for n in range(1, most + 1) if n not in texts]
    return texts


def check_new_answer(reply: Reply, values: Sequence[str], others: Collection[str]) -> str:
    """Return an answer that was written anew."""
    with Problems() as problems:
        text = problems.text(reply.get("new_answer"), '"new_answer"')
        problems += [f"the answer names the value {value}" for value in giveaways(text, values)]
        if text and text in others:
            problems.append("the answer is the same as another situation's")
    return text


def giveaways(text: str, values: Sequence[str]) -> list[str]:
    """Return the values of several words that stand in a text as they are, or with spaces for underscores.

    A single word, such as ``weekly``, is at home in any advice.
    """
    return [value for value in values if _is_telling(value) and _stands_in(value, text)]


def _is_telling(value: str) -> bool:
    if _has_no_spaces(value):
        return len(value) >= SHORTEST_GIVEAWAY
    letters = "".join(character for character in value if not unicodedata.category(character).startswith("M"))
    return len(re.findall(r"[^\W_]+", letters)) > 1


def _stands_in(value: str, text: str) -> bool:
    if _has_no_spaces(value):
        return value in text
    pattern = re.escape(value).replace("_", "[_ -]")
    letter = r"[A-Za-z0-9_]" if value.isascii() else r"\w"
    return re.search(rf"(?<!{letter}){pattern}(?!{letter})", text, re.IGNORECASE) is not None


def _has_no_spaces(value: str) -> bool:
    """Tell whether a value is in a script that puts no spaces between words."""
    return any(unicodedata.name(character, "").startswith(UNSPACED) for character in value)


def check_first_queries(reply: Reply, state: State, *, once: bool) -> list[Opening]:
    """Return the first messages, which tell the whole initial state; ``once`` refuses a value that is told twice."""
    with Problems() as problems:
        openings = []
        listed = problems.items(reply.get("queries"), '"queries"')
        for place, fields in problems.rows(listed, "message"):
            query = problems.text(fields.get("query"), f'{place}: "query"')
            exposed = problems.fields(fields.get("exposed_states"), f'{place}: "exposed_states"')
            if isinstance(fields.get("exposed_states"), dict) and not 1 <= len(exposed) <= MOST_STATES_A_MESSAGE:
                problems.append(f"{place} tells {len(exposed)} properties; 1 to {MOST_STATES_A_MESSAGE} are wanted")
            for key, value in exposed.items():
                if key not in state:
                    problems.append(f"{place}: {short(key)} is no property")
                elif value != state[key]:
                    problems.append(f"{place}: {key} is {state[key]}, not {named(value)}")
            openings.append(Opening({key: state[key] for key in exposed if key in state}, query))
        exposed_keys = [key for opening in openings for key in opening.exposed]
        problems += [f"no message tells {key}" for key in state if key not in exposed_keys]
        if len(listed) > len(state):
            problems.append(f"there are {len(listed)} messages for {len(state)} properties")
        if once:
            problems.distinct(exposed_keys, "told properties")
        problems.distinct([opening.query for opening in openings], "messages")
    return openings


def check_queries(reply: Reply, events: Sequence[LifeEvent]) -> list[str]:
    """Return the messages, one for each event."""
    with Problems() as problems:
        listed = problems.items(reply.get("queries"), '"queries"')
        queries = _numbered(listed, problems, by="event", text="query", called="message", most=len(events))
        problems.distinct(list(queries.values()), "messages")
    return [queries[number] for number in range(1, len(events) + 1)]


def check_new_query(reply: Reply) -> str:
    """Return a message that was written anew."""
    with Problems() as problems:
        return problems.text(reply.get("new_query"), '"new_query"')


def read_number(text: str, most: int) -> int:
    """Return the number from 1 to ``most`` that a reply names: in JSON, or the only one in a text.

    Raises ReplyError when it names none.
    """
    try:
        number = whole_number(read_reply(text).get("answer"))
    except ReplyError:
        numbers = {int(digits) for digits in re.findall(r"(?<!\d)\d{1,4}(?!\d)", text[:LONGEST_TEXT])}
        number = numbers.pop() if len(numbers) == 1 else None
    if number is None or not 1 <= number <= most:
        raise ReplyError(f"the reply names no number from 1 to {most}")
    return number
