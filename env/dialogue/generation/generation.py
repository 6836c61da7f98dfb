"""Users side by side, each from its last finished stage on; a user that fails touches no other.

What does not depend on an earlier answer of the same user runs side by side too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ....data.dialogue.personas import Persona, made_up_person, read_personas
from ....data.dialogue.scenario import Scenario, ScenarioError, UserProfile
from ....data.json_files import write_json
from ....policies.lm import LanguageModel
from ...concurrency import Running, both, end, side_by_side, start
from ..compat import NONE, Compat
from .asking import Desk, Dropped
from .checks import LifeEvent, Opening
from .folder import GenerationError, check_free, claim, open_user
from .life import Life, assemble
from .plan import GenerationPlan
from .stages import begin, change, describe, merge_schema, tell_events, think_of_questions
from .telling import answer_question, first_openings, later_openings
from .texts import GenerationTexts

FINISHED = "scenario"
"""The last stage of a user; once it is there, the others are not looked at."""
USERS_AT_ONCE = 16
"""Users under way at once: with fewer, more users are finished when a budget ends the run."""


@dataclass(frozen=True, slots=True)
class DroppedUser:
    """A user that could not be made."""

    user: str
    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Generated:
    """The users that were made, in their order, and those that were not."""

    scenarios: tuple[Scenario, ...]
    dropped: tuple[DroppedUser, ...]


@dataclass(frozen=True, slots=True)
class GenerationSetup:
    """What users are made from, besides the model."""

    plan: GenerationPlan = field(default_factory=GenerationPlan)
    texts: GenerationTexts = field(default_factory=GenerationTexts.bundled)
    personas: Path | None = None
    """A file; None makes people up."""
    compat: Compat = NONE
    """AMemGym's defects that are reproduced."""

    def people(self) -> list[tuple[str, Persona | UserProfile]]:
        """Return who the users are to be, by id. Raises PersonaError."""
        plan = self.plan
        if self.personas is None:
            return [made_up_person(seed=plan.seed, index=index) for index in range(plan.users)]
        drawn = read_personas(self.personas, count=plan.users, seed=plan.seed, exclude=plan.exclude_ids)
        return [(persona.id, persona) for persona in drawn]

    def settings(self, model: str) -> dict[str, object]:
        """Return what decides about the users, to be compared when a run goes on."""
        return {
            **self.plan.model_dump(mode="json"),
            "model": model,
            "texts": self.texts.digest,
            "personas": None if self.personas is None else hashlib.sha256(self.personas.read_bytes()).hexdigest(),
            "compat": sorted(self.compat & {"unshuffled_choices", "final_update_counts"}),
        }


@dataclass(frozen=True, slots=True)
class GenerationProgress:
    """How far a generation is."""

    users: int
    """Made or dropped."""
    stages: int
    """Finished in this run or before, over all users."""


async def generate(
    setup: GenerationSetup,
    model: LanguageModel,
    parts: Path,
    *,
    model_name: str | None = None,
    tell: Callable[[GenerationProgress], None] = lambda _: None,
) -> Generated:
    """Make the users of a plan; ``parts`` keeps the finished stages, so that the same call goes on after a stop.

    ``tell`` first hears that nothing is finished, when all that is given has been found right.
    A user is dropped when its replies cannot be used or a call of it fails; the same call tries it again.
    Raises PersonaError, and GenerationError when ``parts`` is in use or holds users made from other settings.
    EndpointDown and BudgetExhausted end the run; finished stages stay.
    """
    people = setup.people()
    check_free(parts)
    try:
        with _alone(parts):
            claim(parts, setup.settings(model_name or model.name))
            tell(GenerationProgress(0, 0))
            users = await _make_all(setup, model, parts, people, tell)
            dropped = [user for user in users if isinstance(user, DroppedUser)]
            write_json(parts / "dropped.json", [asdict(user) for user in dropped])
    except Timeout:
        raise GenerationError(f"{parts}: another run is making users there; wait for it, or name another") from None
    return Generated(tuple(user for user in users if isinstance(user, Scenario)), tuple(dropped))


def _alone(parts: Path) -> FileLock:
    parts.mkdir(parents=True, exist_ok=True)
    return FileLock(parts / ".lock", timeout=0)


async def _make_all(
    setup: GenerationSetup,
    model: LanguageModel,
    parts: Path,
    people: Sequence[tuple[str, Persona | UserProfile]],
    tell: Callable[[GenerationProgress], None],
) -> list[Scenario | DroppedUser]:
    free = asyncio.Semaphore(USERS_AT_ONCE)
    users = stages = 0

    def finished_stage() -> None:
        nonlocal stages
        stages += 1
        tell(GenerationProgress(users, stages))

    async def make(index: int, user: str, person: Persona | UserProfile) -> Scenario | DroppedUser:
        nonlocal users
        async with free:
            folder = open_user(parts, index, user)
            desk = Desk(model, setup.plan, setup.texts, folder, finished_stage)
            result: Scenario | DroppedUser
            try:
                result = await _make_user(desk, user, person, compat=setup.compat)
            except Dropped as error:
                folder.drop(stage=error.stage, reason=error.reason, replied=error.replied)
                result = DroppedUser(user, error.stage, error.reason)
            else:
                folder.finish()
            users += 1
            tell(GenerationProgress(users, stages))
            return result

    return await side_by_side(make(index, user, person) for index, (user, person) in enumerate(people))


async def _make_user(desk: Desk, user: str, person: Persona | UserProfile, *, compat: Compat) -> Scenario:
    """Return a user's scenario, from the last finished stage on; a persona gets a profile first.

    Raises Dropped naming the stage that failed.
    """
    with suppress(ScenarioError):  # it is made anew where its file is damaged
        if (row := desk.folder.read(FINISHED)) is not None:
            return Scenario.parse(row)
    profile = await describe(desk, person) if isinstance(person, Persona) else person
    drafts = await merge_schema(desk, await think_of_questions(desk, profile))
    schema = {info: choices for draft in drafts for info, choices in draft.infos.items()}
    life = Life(user, profile, drafts, schema, await begin(desk, profile, schema))
    await _live(desk, life)
    try:
        scenario = assemble(life, desk.plan, compat)
    except ScenarioError as error:
        raise Dropped(FINISHED, str(error)) from None
    desk.keep(FINISHED, scenario.model_dump(mode="json"))
    return scenario


async def _live(desk: Desk, life: Life) -> None:
    """Let the periods pass, while the texts of each are written; then answer the questions."""
    periods: list[Running[tuple[list[LifeEvent], list[Opening]]]] = [start(_write(desk, life, 0))]
    try:
        for period in range(1, desk.plan.periods + 1):
            life.changes.append(await _unless_failed(change(desk, life), periods))
            periods.append(start(_write(desk, life, period)))
        answers = side_by_side(answer_question(desk, life, q) for q in range(len(life.drafts)))
        life.answers, written = await both(answers, side_by_side(running.result() for running in periods))
    except BaseException:
        await end(periods)
        raise
    life.events, life.openings = zip(*written, strict=True)


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
