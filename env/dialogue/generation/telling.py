"""The stages that write what is said, and have it verified: answers to choose from, and opening messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from ....data.dialogue.scenario import State
from ...concurrency import side_by_side
from .asking import Desk, Prompt, Reply, read_reply, settle
from .checks import (
    Event,
    Opening,
    check_answers,
    check_first_queries,
    check_new_answer,
    check_new_query,
    check_queries,
    read_number,
)
from .life import Life, Variant, variants_of
from .plan import MOST_STATES_TOLD
from .problems import Schema
from .stages import as_json, braced_schema, dates, schema_lines


async def answer_question(desk: Desk, life: Life, q: int) -> list[str]:
    """Stage 6, one question: an answer for each variant, which a reader tells from the others."""
    name, draft, variants = f"answers-{q + 1:02d}", life.drafts[q], variants_of(life, q, desk.plan)
    check = partial(check_answers, variants=[variant.state for variant in variants])
    kept = desk.kept(name, check)
    if kept is not None:
        return kept
    states = [dict(zip(draft.infos, variant.state, strict=True)) for variant in variants]
    slots = {
        "question": draft.question,
        "variants": "\n".join(f"{n}: {as_json_line(state)}" for n, state in enumerate(states, 1)),
        "language": desk.plan.language,
    }
    _, answers = await desk.ask(name, Prompt("answers", slots), check)
    asked = _Answers(desk, name, draft.question, variants, states)
    answers = await settle(name, answers, verify=asked.verify, refine=asked.refine, refinements=desk.plan.refinements)
    reply = {"answers": [{"variant": n, "answer": answer} for n, answer in enumerate(answers, 1)]}
    return desk.settled(name, reply, check)


class _Answers:
    """How one question's answers are verified and refined."""

    def __init__(
        self, desk: Desk, name: str, question: str, variants: Sequence[Variant], states: Sequence[State]
    ) -> None:
        self._desk, self._name, self._question = desk, name, question
        self._variants, self._states = variants, states

    async def verify(self, i: int, answers: Sequence[str], round_: int) -> str | None:
        slots = {
            "question": self._question,
            "state": as_json(self._states[i]),
            "choices": "\n".join(f"{n}: {answer}" for n, answer in enumerate(answers, 1)),
        }
        reply = await self._desk.verdict(self._name, Prompt("check_answer", slots, round=round_))
        number = read_number(reply, len(answers))
        return None if number == i + 1 else f"a reader chose the answer to {as_json_line(self._states[number - 1])}"

    async def refine(self, i: int, answers: Sequence[str], problem: str, round_: int) -> str:
        others = [n for n in range(len(answers)) if n != i]
        slots = {
            "question": self._question,
            "answer": answers[i],
            "state": as_json(self._states[i]),
            "others": "\n".join(f"{as_json_line(self._states[n])}: {answers[n]}" for n in others),
            "problem": problem,
            "language": self._desk.plan.language,
        }
        check = partial(check_new_answer, values=self._variants[i].state, others=[answers[n] for n in others])
        _, text = await self._desk.ask(self._name, Prompt("refine_answer", slots, round=round_), check)
        return text


async def first_openings(desk: Desk, life: Life) -> list[Opening]:
    """Stage 7, initial period: messages that tell the initial state, a few values each."""
    slots = {
        "profile": life.profile.formatted_str,
        "state": as_json(life.initial),
        "schema": braced_schema(life.schema),
        "start_date": desk.plan.start_date.isoformat(),
        "most": str(MOST_STATES_TOLD),
        "language": desk.plan.language,
    }
    name = "queries-00"
    lenient = partial(check_first_queries, state=life.initial, once=False)
    kept = desk.kept(name, lenient)
    if kept is not None:
        return kept
    strict = partial(check_first_queries, state=life.initial, once=True)
    _, openings = await desk.ask(name, Prompt("first_queries", slots), strict, lenient=lenient)
    openings = await _verified(desk, name, life.schema, openings)
    reply = {"queries": [{"exposed_states": o.exposed, "query": o.query} for o in openings]}
    return desk.settled(name, reply, lenient)


async def later_openings(desk: Desk, life: Life, period: int, events: Sequence[Event]) -> list[Opening]:
    """Stage 7, a later period: a message for each event."""
    new = life.changes[period - 1].updated
    exposed = [{info: new[info] for info in event.states} for event in events]
    listed = [{"number": n, "event": e.text, "now": exposed[n - 1]} for n, e in enumerate(events, 1)]
    slots = {
        **dates(desk, period),
        "profile": life.profile.formatted_str,
        "events": as_json(listed),
        "schema": braced_schema({info: life.schema[info] for info in new}),
        "language": desk.plan.language,
    }
    name = f"queries-{period:02d}"

    def check(reply: Reply) -> list[Opening]:
        queries = check_queries(reply, events)
        return [Opening(states, query) for states, query in zip(exposed, queries, strict=True)]

    kept = desk.kept(name, check)
    if kept is not None:
        return kept
    _, openings = await desk.ask(name, Prompt("update_queries", slots), check)
    openings = await _verified(desk, name, life.schema, openings)
    return desk.settled(name, {"queries": [{"event": n, "query": o.query} for n, o in enumerate(openings, 1)]}, check)


async def _verified(desk: Desk, name: str, schema: Schema, openings: Sequence[Opening]) -> list[Opening]:
    return await side_by_side(_verified_opening(desk, name, schema, opening) for opening in openings)


async def _verified_opening(desk: Desk, name: str, schema: Schema, opening: Opening) -> Opening:
    """Have a reader find the states in a message that knows nothing but their choices."""
    choices = {info: schema[info] for info in opening.exposed}

    async def verify(_: int, queries: Sequence[str], round_: int) -> str | None:
        slots = {"query": queries[0], "schema": schema_lines(choices)}
        reply = read_reply(await desk.verdict(name, Prompt("check_query", slots, round=round_)))
        wrong = {info: reply.get(info) for info, value in opening.exposed.items() if reply.get(info) != value}
        return f"a reader took it to tell {as_json_line(wrong)}" if wrong else None

    async def refine(_: int, queries: Sequence[str], problem: str, round_: int) -> str:
        slots = {
            "query": queries[0],
            "state": as_json(opening.exposed),
            "problem": problem,
            "schema": braced_schema(choices),
            "language": desk.plan.language,
        }
        return (await desk.ask(name, Prompt("refine_query", slots, round=round_), check_new_query))[1]

    (query,) = await settle(name, [opening.query], verify=verify, refine=refine, refinements=desk.plan.refinements)
    return Opening(opening.exposed, query)


def as_json_line(value: object) -> str:
    """Return a value as JSON in one line, cut where a model let it grow."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 500 else f"{text[:500]}..."
