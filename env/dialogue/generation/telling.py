"""The stages that write what is said, and have it verified: answers to choose from, and opening messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from ....policies.forms import choice_form, number_form
from ...concurrency import side_by_side
from .asking import Desk, GenerationPrompt, Reply, read_reply, settle
from .checks import (
    LifeEvent,
    Opening,
    check_answers,
    check_first_queries,
    check_new_answer,
    check_new_query,
    check_queries,
    read_number,
)
from .life import Life, variants_to_answer
from .plan import MOST_STATES_A_MESSAGE
from .problems import Schema
from .stages import as_json, braced_schema, dates, schema_lines


async def answer_question(desk: Desk, life: Life, q: int) -> list[str]:
    """Stage 6, one question: an answer for each variant, which a reader tells from the others."""
    name, draft, variants = f"answers-{q + 1:02d}", life.drafts[q], variants_to_answer(life, q, desk.plan)
    check_all = partial(check_answers, variants=variants)
    kept = desk.kept(name, check_all)
    if kept is not None:
        return kept
    states = [dict(zip(draft.infos, variant, strict=True)) for variant in variants]
    listed = "\n".join(f"{n}: {as_json_line(state)}" for n, state in enumerate(states, 1))

    async def verify(i: int, answers: Sequence[str], round_: int) -> str | None:
        choices = "\n".join(f"{n}: {answer}" for n, answer in enumerate(answers, 1))
        slots = {"question": draft.question, "state": as_json(states[i]), "choices": choices}
        form = number_form(len(answers))
        reply = await desk.verdict(name, GenerationPrompt("check_answer", slots, round=round_, form=form))
        number = read_number(reply, len(answers))
        return None if number == i + 1 else f"a reader chose the answer to {as_json_line(states[number - 1])}"

    async def refine(i: int, answers: Sequence[str], problem: str, round_: int) -> str:
        others = [n for n in range(len(answers)) if n != i]
        slots = {
            "question": draft.question,
            "answer": answers[i],
            "state": as_json(states[i]),
            "others": "\n".join(f"{as_json_line(states[n])}: {answers[n]}" for n in others),
            "problem": problem,
        }
        check = partial(check_new_answer, values=variants[i], others=[answers[n] for n in others])
        return (await desk.ask(name, GenerationPrompt("refine_answer", slots, round=round_), check))[1]

    slots = {"question": draft.question, "variants": listed}
    _, answers = await desk.ask(name, GenerationPrompt("answers", slots), check_all)
    answers = await settle(name, answers, verify=verify, refine=refine, refinements=desk.plan.refinements)
    reply = {"answers": [{"variant": n, "answer": answer} for n, answer in enumerate(answers, 1)]}
    return desk.settled(name, reply, check_all)


async def first_openings(desk: Desk, life: Life) -> list[Opening]:
    """Stage 7, initial period: messages that tell the initial state, a few values each."""
    slots = {
        "profile": life.profile.formatted_str,
        "state": as_json(life.initial),
        "schema": braced_schema(life.schema),
        "most": str(MOST_STATES_A_MESSAGE),
    }
    name = "queries-00"
    lenient = partial(check_first_queries, state=life.initial, once=False)
    kept = desk.kept(name, lenient)
    if kept is not None:
        return kept
    strict = partial(check_first_queries, state=life.initial, once=True)
    _, openings = await desk.ask(name, GenerationPrompt("first_queries", slots), strict, lenient=lenient)
    openings = await side_by_side(_verified(desk, name, life.schema, opening) for opening in openings)
    reply = {"queries": [{"exposed_states": o.exposed, "query": o.query} for o in openings]}
    return desk.settled(name, reply, lenient)


async def later_openings(desk: Desk, life: Life, period: int, events: Sequence[LifeEvent]) -> list[Opening]:
    """Stage 7, a later period: a message for each event."""
    new = life.changes[period - 1].updated
    exposed = [{info: new[info] for info in event.states} for event in events]
    listed = [{"number": n, "event": e.text, "now": exposed[n - 1]} for n, e in enumerate(events, 1)]
    slots = {
        **dates(desk, period),
        "profile": life.profile.formatted_str,
        "events": as_json(listed),
        "schema": braced_schema({info: life.schema[info] for info in new}),
    }
    name = f"queries-{period:02d}"

    def check(reply: Reply) -> list[Opening]:
        queries = check_queries(reply, events)
        return [Opening(states, query) for states, query in zip(exposed, queries, strict=True)]

    kept = desk.kept(name, check)
    if kept is not None:
        return kept
    _, openings = await desk.ask(name, GenerationPrompt("update_queries", slots), check)
    openings = await side_by_side(_verified(desk, name, life.schema, opening) for opening in openings)
    return desk.settled(name, {"queries": [{"event": n, "query": o.query} for n, o in enumerate(openings, 1)]}, check)


async def _verified(desk: Desk, name: str, schema: Schema, opening: Opening) -> Opening:
    """Have a reader find the states in a message that knows nothing but their choices."""
    choices = {info: schema[info] for info in opening.exposed}

    async def verify(_: int, queries: Sequence[str], round_: int) -> str | None:
        slots = {"query": queries[0], "schema": schema_lines(choices)}
        prompt = GenerationPrompt("check_query", slots, round=round_, form=choice_form(choices))
        reply = read_reply(await desk.verdict(name, prompt))
        wrong = {info: reply.get(info) for info, value in opening.exposed.items() if reply.get(info) != value}
        return f"a reader took it to tell {as_json_line(wrong)}" if wrong else None

    async def refine(_: int, queries: Sequence[str], problem: str, round_: int) -> str:
        slots = {
            "query": queries[0],
            "state": as_json(opening.exposed),
            "problem": problem,
            "schema": braced_schema(choices),
        }
        return (await desk.ask(name, GenerationPrompt("refine_query", slots, round=round_), check_new_query))[1]

    (query,) = await settle(name, [opening.query], verify=verify, refine=refine, refinements=desk.plan.refinements)
    return Opening(opening.exposed, query)


def as_json_line(value: object) -> str:
    """Return a value as JSON in one line, cut where a model let it grow."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 500 else f"{text[:500]}..."
