"""One user, from the person to the scenario: what does not depend on an earlier answer runs side by side."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from ....data.dialogue.personas import Persona
from ....data.dialogue.scenario import Scenario, ScenarioError, UserProfile
from ...concurrency import Running, both, end, side_by_side, start
from ..compat import NONE, Compat
from .asking import Desk, Dropped
from .checks import Event, Opening
from .life import Life, Told, scenario_of
from .stages import begin, change, describe, merge_schema, tell_events, think_of_questions
from .telling import answer_question, first_openings, later_openings

FINISHED = "scenario"
"""The last stage; once it is there, the others are not looked at."""


@dataclass(frozen=True, slots=True)
class Somebody:
    """Who a user is to be: a persona to be described, or a person whose profile is there."""

    user: str
    person: Persona | UserProfile


async def make_user(desk: Desk, who: Somebody, *, compat: Compat = NONE) -> Scenario:
    """Return the scenario of a user, from the last finished stage on. Raises Dropped naming the stage that failed."""
    finished = _finished(desk)
    if finished is not None:
        return finished
    person = who.person
    profile = await describe(desk, person) if isinstance(person, Persona) else person
    drafts = await merge_schema(desk, await think_of_questions(desk, profile))
    schema = {info: choices for draft in drafts for info, choices in draft.infos.items()}
    life = Life(who.user, profile, drafts, schema, await begin(desk, profile, schema))
    told = await _live(desk, life)
    try:
        scenario = scenario_of(life, told, desk.plan, compat)
    except ScenarioError as error:
        raise Dropped(FINISHED, str(error), replied=True) from None
    desk.keep(FINISHED, scenario.model_dump(mode="json"))
    return scenario


def _finished(desk: Desk) -> Scenario | None:
    row = desk.folder.read(FINISHED)
    if row is None:
        return None
    try:
        return Scenario.parse(row)
    except ScenarioError:
        return None


async def _live(desk: Desk, life: Life) -> Told:
    """Let the periods pass, while what each of them brings is told; then answer the questions."""
    periods: list[Running[tuple[list[Event], list[Opening]]]] = [start(_tell_first(desk, life))]
    try:
        for period in range(1, desk.plan.periods + 1):
            life.changes.append(await _unless_failed(change(desk, life), periods))
            periods.append(start(_tell_later(desk, life, period)))
        answers = side_by_side(answer_question(desk, life, q) for q in range(len(life.drafts)))
        answered, told = await both(answers, _all_of(periods))
    except BaseException:
        await end(periods)
        raise
    return Told([events for events, _ in told], [openings for _, openings in told], answered)


async def _unless_failed(coroutine: Coroutine[Any, Any, Any], running: list[Running[Any]]) -> Any:
    """Return a result, unless something that is under way has failed meanwhile."""
    result = await coroutine
    for one in running:
        if one.task.done() and not one.task.cancelled() and one.task.exception() is not None:
            await one.result()
    return result


async def _all_of(running: list[Running[Any]]) -> list[Any]:
    return await side_by_side(one.result() for one in running)


async def _tell_first(desk: Desk, life: Life) -> tuple[list[Event], list[Opening]]:
    return [], await first_openings(desk, life)


async def _tell_later(desk: Desk, life: Life, period: int) -> tuple[list[Event], list[Opening]]:
    events = await tell_events(desk, life, period)
    return events, await later_openings(desk, life, period, events)
