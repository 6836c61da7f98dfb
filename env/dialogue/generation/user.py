"""One user, from the person to the scenario: what does not depend on an earlier answer runs side by side."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ....data.dialogue.personas import Persona
from ....data.dialogue.scenario import Scenario, ScenarioError, UserProfile
from ...concurrency import Running, both, end, side_by_side, start
from ..compat import NONE, Compat
from .asking import Desk, Dropped
from .checks import LifeEvent, Opening
from .life import Life, LifeTexts, assemble
from .stages import begin, change, describe, merge_schema, tell_events, think_of_questions
from .telling import answer_question, first_openings, later_openings

FINISHED = "scenario"
"""The last stage; once it is there, the others are not looked at."""


async def make_user(desk: Desk, user: str, person: Persona | UserProfile, *, compat: Compat = NONE) -> Scenario:
    """Return a user's scenario, from the last finished stage on; a persona gets a profile first.

    Raises Dropped naming the stage that failed.
    """
    finished = _finished(desk)
    if finished is not None:
        return finished
    profile = await describe(desk, person) if isinstance(person, Persona) else person
    drafts = await merge_schema(desk, await think_of_questions(desk, profile))
    schema = {info: choices for draft in drafts for info, choices in draft.infos.items()}
    life = Life(user, profile, drafts, schema, await begin(desk, profile, schema))
    texts = await _live(desk, life)
    try:
        scenario = assemble(life, texts, desk.plan, compat)
    except ScenarioError as error:
        raise Dropped(FINISHED, str(error)) from None
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


async def _live(desk: Desk, life: Life) -> LifeTexts:
    """Let the periods pass, while the texts of each are written; then answer the questions."""
    periods: list[Running[tuple[list[LifeEvent], list[Opening]]]] = [start(_write(desk, life, 0))]
    try:
        for period in range(1, desk.plan.periods + 1):
            life.changes.append(await _unless_failed(change(desk, life), periods))
            periods.append(start(_write(desk, life, period)))
        answers = side_by_side(answer_question(desk, life, q) for q in range(len(life.drafts)))
        answered, written = await both(answers, side_by_side(running.result() for running in periods))
    except BaseException:
        await end(periods)
        raise
    return LifeTexts([events for events, _ in written], [openings for _, openings in written], answered)


async def _unless_failed(coroutine: Coroutine[Any, Any, Any], under_way: list[Running[Any]]) -> Any:
    """Return a result, unless something that is under way has failed meanwhile."""
    result = await coroutine
    for running in under_way:
        if running.task.done() and not running.task.cancelled() and running.task.exception() is not None:
            await running.result()
    return result


async def _write(desk: Desk, life: Life, period: int) -> tuple[list[LifeEvent], list[Opening]]:
    """Return a period's events and opening messages; the initial period has no events."""
    if period == 0:
        return [], await first_openings(desk, life)
    events = await tell_events(desk, life, period)
    return events, await later_openings(desk, life, period, events)
