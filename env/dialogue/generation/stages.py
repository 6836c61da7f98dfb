"""The stages of one user, from the person to the first and the later states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ....data.dialogue.personas import Persona, profile_of
from ....data.dialogue.scenario import State, UserProfile
from ....policies.forms import choice_form
from .asking import Desk, GenerationPrompt
from .checks import (
    Draft,
    LifeEvent,
    PeriodChange,
    check_change,
    check_choices,
    check_drafts,
    check_events,
    check_initial,
    check_merge,
    check_person,
)
from .life import Life, update_counts
from .problems import Schema


def as_json(value: Any) -> str:
    """Return how a value stands in a prompt."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def schema_lines(schema: Mapping[str, Sequence[str]]) -> str:
    """Return the choices of each info type, one a line."""
    return ",\n".join(
        f"{json.dumps(info, ensure_ascii=False)}: {json.dumps(list(choices), ensure_ascii=False)}"
        for info, choices in schema.items()
    )


def braced_schema(schema: Schema) -> str:
    """Return a schema as a JSON object with a line for each info type."""
    return f"{{\n{schema_lines(schema)}\n}}"


async def describe(desk: Desk, persona: Persona) -> UserProfile:
    """Stage 0: a name and a description for a persona."""
    name, profile = await desk.stage("profile", GenerationPrompt("profile", {"persona": persona.text}), check_person)
    return profile_of(persona, name=name, description=profile)


async def think_of_questions(desk: Desk, profile: UserProfile) -> list[Draft]:
    """Stage 1: the questions, each with its info types and their choices."""
    plan = desk.plan
    slots = {
        "profile": profile.formatted_str,
        "questions": str(plan.questions),
        "states": str(plan.states_per_question),
        "choices": str(plan.choices_per_state),
    }
    return await desk.stage(
        "questions", GenerationPrompt("questions", slots, creative=True), partial(check_drafts, plan=plan)
    )


async def merge_schema(desk: Desk, drafts: Sequence[Draft]) -> list[Draft]:
    """Stages 2 and 3: info types of the same meaning become one, with choices that serve all their questions."""
    questions = as_json([{"question": draft.question, "info_types": draft.infos} for draft in drafts])
    prompt = GenerationPrompt("merge_schema", {"questions": questions})
    renamed = await desk.stage("schema", prompt, partial(check_merge, drafts=drafts))
    sources: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for draft in drafts:
        for old, choices in draft.infos.items():
            sources.setdefault(renamed[old], []).append((draft.question, choices))
    schema = {new: uses[0][1] for new, uses in sources.items()}
    differing = {new: uses for new, uses in sources.items() if len({choices for _, choices in uses}) > 1}
    if differing:
        shown = {
            new: [{"question": question, "choices": choices} for question, choices in uses]
            for new, uses in differing.items()
        }
        prompt = GenerationPrompt(
            "unify_choices", {"types": as_json(shown), "choices": str(desk.plan.choices_per_state)}
        )
        schema |= await desk.stage("choices", prompt, partial(check_choices, infos=differing, plan=desk.plan))
    return [Draft(d.question, {renamed[old]: schema[renamed[old]] for old in d.infos}) for d in drafts]


async def begin(desk: Desk, profile: UserProfile, schema: Schema) -> State:
    """Stage 4: the initial state."""
    slots = {"profile": profile.formatted_str, "schema": braced_schema(schema)}
    prompt = GenerationPrompt("initial_state", slots, form=choice_form(schema))
    return await desk.stage("initial", prompt, partial(check_initial, schema=schema))


async def change(desk: Desk, life: Life) -> PeriodChange:
    """Stage 5, one period: what changes next."""
    plan, period, state, changed = desk.plan, len(life.changes) + 1, life.states[-1], update_counts(life)
    history = [
        {"until": plan.period_end(p).isoformat(), "summary": past.summary, "updated": past.updated}
        for p, past in enumerate(life.changes, 1)
    ]
    slots = {
        **dates(desk, period),
        "profile": life.profile.formatted_str,
        "schema": braced_schema(life.schema),
        "state": as_json(state),
        "counts": as_json(changed),
        "history": as_json(history),
        "changes": str(min(plan.changes_per_period, len(life.schema))),
        "most": str(plan.changes_per_state),
    }
    check = partial(check_change, state=state, schema=life.schema, changed=changed, plan=plan)
    return await desk.stage(f"update-{period:02d}", GenerationPrompt("update", slots, creative=True), check)


async def tell_events(desk: Desk, life: Life, period: int) -> list[LifeEvent]:
    """Stage 5, one period: the events behind what changes."""
    before, now = life.states[period - 1], life.changes[period - 1]
    slots = {
        **dates(desk, period),
        "profile": life.profile.formatted_str,
        "summary": now.summary,
        "updates": as_json({info: {"old": before[info], "new": new} for info, new in now.updated.items()}),
    }
    check = partial(check_events, updated=now.updated)
    return await desk.stage(f"events-{period:02d}", GenerationPrompt("events", slots), check)


def dates(desk: Desk, period: int) -> dict[str, str]:
    """Return the slots that say when a period is."""
    return {
        "period_start": desk.plan.period_end(period - 1).isoformat(),
        "period_end": desk.plan.period_end(period).isoformat(),
    }
