"""Episodes that stop after a stage and go on later.

Invariants:

1. Wherever an episode stopped, in the end it is the one that never stopped, call by call.
2. At a stop it has the first stages of that episode, and nothing is under way.
3. A failed episode stays failed, and costs no further call.
4. An evaluation goes on where the last one of the same policy stopped, unless that one was left.
5. Every rollout is closed: at the end of its episode, when it is left, and when it raises.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toy
from mnemotune import env
from mnemotune.env import Episode, Rollout
from mnemotune.env.dialogue.rollout import DialogueRollout
from mnemotune.env.episode import RecordError
from mnemotune.env.reading import ReadingRollout
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import Budget, BudgetExhausted, LanguageModelError, Limits, Metered, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates
from staged import evaluator, rollout

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario, RunVirtually

NATIVE, AWI = load_policy("native"), load_policy("awi")
SESSIONS = (3, 1, 2, 1)
CHANGES = {1: {"pet_0": "mid"}, 2: {"flat_1": "mid", "pet_0": "low"}}

stops = st.lists(st.integers(0, 6), max_size=4)


def unless(when: str, error: type[Exception] = LanguageModelError, *, says: str) -> Any:
    """Say something, but raise for requests whose text holds ``when``."""

    def said(request: Request) -> str:
        if any(when in message.content for message in request.messages):
            raise error(f"no reply for {request.role}")
        return says

    return said


def begun(scenario: Any, policy: Any, cast: Any) -> DialogueRollout:
    return DialogueRollout(scenario, policy, cast, cast.protocol)


async def in_parts(under_way: Rollout, at: Sequence[int]) -> list[Episode]:
    """Run an episode to each of these stops, then to its end; return it as it was each time."""
    return [await under_way.run(stages) for stages in (*at, None)]


# One episode


@settings(deadline=None, max_examples=60)
@given(preset=st.sampled_from(presets()), sessions=st.lists(st.integers(0, 3), min_size=1, max_size=4), at=stops)
def test_wherever_an_episode_stopped_it_is_the_one_that_never_stopped_invariants_1_2(
    preset: str,
    sessions: list[int],
    at: list[int],
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
) -> None:
    """A stop may be at once, the same again, an earlier one, or beyond the end."""
    scenario, policy = make_scenario(sessions=sessions, questions=1), load_policy(preset)
    stopped, unstopped = make_model(), make_model()
    whole = asyncio.run(rollout(scenario, policy, make_cast(unstopped)))
    *parts, last = asyncio.run(in_parts(begun(scenario, policy, make_cast(stopped)), at))
    assert last == whole
    assert Counter(stopped.requests) == Counter(unstopped.requests)
    for number, part in enumerate(parts, start=1):
        assert part.stages == whole.stages[: max(at[:number])]
        assert part.failure is None


@pytest.mark.parametrize("preset", presets())
@pytest.mark.parametrize("at", [(1,), (2,), (1, 3), (1, 2, 3, 4)])
def test_however_long_its_calls_take_an_episode_that_stopped_is_the_same_invariants_1_2(
    preset: str,
    at: tuple[int, ...],
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    random_delays: Any,
) -> None:
    scenario, policy = make_scenario(sessions=SESSIONS, changes=CHANGES), load_policy(preset)
    whole = asyncio.run(rollout(scenario, policy, make_cast(make_model())))
    model = make_model(delay=random_delays(len(at)))

    async def run() -> None:
        under_way = begun(scenario, policy, make_cast(model))
        for stages in at:
            assert (await under_way.run(stages)).stages == whole.stages[:stages]
            assert model.under_way == []
            assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await under_way.run() == whole

    run_virtually(run())


@pytest.mark.parametrize("at", [(), (1,), (2,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("role", ["reply", "user", "write", "answer", "probe"])
async def test_an_episode_that_failed_stays_failed_and_costs_no_further_call_invariant_3(
    role: str, at: tuple[int, ...], make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """The call fails in period 1; what was complete until then is kept, as without a stop."""
    scenario = make_scenario(sessions=(4, 2, 2))
    whole = await rollout(scenario, AWI, make_cast(make_model(**{role: unless("in period 1", says="{}")})))
    model = make_model(**{role: unless("in period 1", says="{}")})
    under_way = begun(scenario, AWI, make_cast(model))
    last = (await in_parts(under_way, at))[-1]
    assert (last.failure, last.stages) == (whole.failure, whole.stages)
    assert len(last.stages) == 1
    asked = len(model.requests)
    assert await in_parts(under_way, (3, 1)) == [last] * 3
    assert len(model.requests) == asked


def test_a_budget_that_ends_in_any_part_is_told_and_not_overshot(
    make_scenario: MakeScenario,
    make_model: MakeModel,
    make_cast: MakeCast,
    run_virtually: RunVirtually[Any],
    random_delays: Any,
) -> None:
    scenario = make_scenario(sessions=(3, 1), questions=1)
    whole = make_model()
    run_virtually(rollout(scenario, AWI, make_cast(whole)))
    for calls in range(len(whole.requests)):
        model = make_model(delay=random_delays(calls))
        metered = Metered(model, budget=Budget(Limits(calls=calls)))

        async def run(metered: Metered = metered) -> None:
            with pytest.raises(BudgetExhausted):
                await in_parts(begun(scenario, AWI, make_cast(metered)), (1,))

        run_virtually(run())
        assert len(model.requests) == calls
        assert model.under_way == []


# Evaluations


@settings(deadline=None, max_examples=40)
@given(preset=st.sampled_from(["native", "rag", "awi", "awi_complete"]), at=stops)
def test_an_evaluation_that_goes_on_ends_like_one_that_never_stopped_invariant_4(
    preset: str, at: list[int], make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Users' lives differ in length; a whole one that is asked for again is another episode, so stops only rise."""
    lives = [
        make_scenario(user=name, sessions=sessions, questions=1, changes={1: {"pet_0": "mid"}})
        for name, sessions in (("ann", (2, 1, 1, 1, 1, 1, 1)), ("ben", (1, 1, 2, 1, 1, 1, 1, 1)))
    ]
    policy, stopped, unstopped = load_policy(preset), make_model(), make_model()
    whole = asyncio.run(evaluator(make_cast(unstopped)).evaluate(policy, lives))
    known, heard = evaluator(make_cast(stopped)), list[Episode]()

    async def run() -> None:
        for stages in sorted(at):
            part = await known.evaluate(policy, lives, stages=stages, done=heard.append)
            assert [score.stages for score in part.groups] == [score.stages[:stages] for score in whole.groups]
            assert heard == []
        last = await known.evaluate(policy, lives, done=heard.append)
        assert (last.groups, last.episodes, last.bounds) == (whole.groups, whole.episodes, whole.bounds)
        assert sorted(heard, key=lambda episode: episode.task) == list(whole.episodes)

    asyncio.run(run())
    assert Counter(stopped.requests) == Counter(unstopped.requests)


async def test_a_life_that_is_shorter_than_asked_for_is_whole_at_once(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name, sessions=sessions) for name, sessions in (("ann", (1,)), ("ben", (1, 1, 1)))]
    heard: list[str] = []
    evaluation = await evaluator(make_cast(make_model())).evaluate(
        NATIVE, lives, stages=2, done=lambda episode: heard.append(episode.task)
    )
    assert [len(episode.stages) for episode in evaluation.episodes] == [1, 2]
    assert heard == ["ann"]


async def test_what_was_left_begins_anew_invariant_4(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model, alone = make_scenario(), make_model(), make_model()
    known = evaluator(make_cast(model))
    await known.evaluate(NATIVE, [scenario], stages=1)
    asked = len(model.requests)
    await known.leave(NATIVE)
    evaluation = await known.evaluate(NATIVE, [scenario])
    assert evaluation.episodes == (await rollout(scenario, NATIVE, make_cast(alone)),)
    assert Counter(model.requests[asked:]) == Counter(alone.requests)


async def test_leaving_one_policy_keeps_the_others_invariant_4(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(sessions=SESSIONS), make_model()
    known = evaluator(make_cast(model))
    for policy in (NATIVE, AWI):
        await known.evaluate(policy, [scenario], stages=2)
    await known.leave(NATIVE)
    asked = len(model.requests)
    evaluation = await known.evaluate(AWI, [scenario])
    alone = await rollout(scenario, AWI, make_cast(make_model()))
    assert evaluation.episodes == (alone,)
    before = sum(len(list(stage.heard)) for stage in alone.stages[:2])
    assert len([request for request in model.requests[asked:] if request.role == "reply"]) == (
        alone.ledger.by_role["reply"].calls - before
    )


async def test_what_is_finished_is_not_gone_on_with_invariant_4(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(questions=1), make_model()
    known = evaluator(make_cast(model))
    first = await known.evaluate(NATIVE, [scenario])
    asked = len(model.requests) - len(model.asked("upper_bound"))
    second = await known.evaluate(NATIVE, [scenario])
    assert first.episodes == second.episodes
    assert len(model.requests) == 2 * asked + len(model.asked("upper_bound"))


async def test_a_user_whose_episode_failed_at_a_stop_stays_failed_invariant_3(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    model = make_model(reply=unless("ben in period 0", says="fine"))
    known, heard = evaluator(make_cast(model)), list[str]()
    for stages in (1, 2, None):
        evaluation = await known.evaluate(NATIVE, lives, stages=stages, done=lambda episode: heard.append(episode.task))
        assert evaluation.failures == {"ben": "no reply for reply"}
        assert list(evaluation.by_group) == ["ann"]
    assert sorted(heard) == ["ann", "ben"]
    assert sum("ben in period 0" in prompt for prompt in model.prompts("reply")) == 1


# Groups of tasks that differ in length


@pytest.mark.parametrize(
    ("stages", "reached", "ended"),
    [
        (0, [0, 0, 0], []),
        (1, [1, 1, 1], ["ben-0"]),
        (2, [1, 2, 1], ["ben-0"]),
        (3, [1, 3, 1], ["ann-0", "ann-1", "ben-0"]),
        (None, [1, 3, 1], ["ann-0", "ann-1", "ben-0"]),
    ],
)
async def test_a_group_stops_as_a_whole_and_is_whole_when_its_longest_task_is(
    stages: int | None, reached: list[int], ended: list[str], make_cast: MakeCast
) -> None:
    tasks = [toy.Letters("ann-0", "ann", 1), toy.Letters("ann-1", "ann", 3), toy.Letters("ben-0", "ben", 1)]
    known, heard = env.Evaluator(toy.LettersTrack(Templates.bundled()), make_cast(EmbeddedModel())), list[str]()
    part = await known.evaluate(AWI, tasks, stages=stages, done=lambda episode: heard.append(episode.task))
    assert [len(episode.stages) for episode in part.episodes] == reached
    assert [len(score.stages) for score in part.groups] == [reached[1], reached[2]]
    assert sorted(heard) == ended
    if stages in {0, 1, 2}:
        whole = await known.evaluate(AWI, tasks[:2], done=lambda episode: heard.append(episode.task))
        assert sorted(heard) == sorted(["ann-0", "ann-1", *ended])
        assert whole.episodes == (await fresh(make_cast).evaluate(AWI, tasks[:2])).episodes


def fresh(make_cast: MakeCast) -> env.Evaluator:
    return env.Evaluator(toy.LettersTrack(Templates.bundled()), make_cast(EmbeddedModel()))


# Closing


class Closing(ReadingRollout[toy.Letters]):
    """Tells the track when it is closed, and fails where it is told to."""

    def __init__(self, track: ClosingTrack, task: toy.Letters, policy: MemoryPolicy, cast: Any) -> None:
        super().__init__(track, task, policy, cast)
        self.track, self.task, self.policy = track, task, policy

    async def run(self, stages: int | None = None) -> Episode:
        if self.task.id in self.track.broken:
            raise ZeroDivisionError(self.task.id)
        return await super().run(stages)

    async def aclose(self) -> None:
        self.track.closed.append((self.policy.key, self.task.id))


class ClosingTrack(toy.LettersTrack):
    closed: list[tuple[str, str]]
    broken: set[str]

    def begin(self, task: Any, policy: Any, cast: Any, *, replay: Any = None, after: Any = None) -> Closing:
        return Closing(self, task, policy, cast)


def closing(*, broken: Sequence[str] = ()) -> ClosingTrack:
    track = ClosingTrack(Templates.bundled())
    object.__setattr__(track, "closed", [])
    object.__setattr__(track, "broken", set(broken))
    return track


WRITERS = [toy.Letters(name, name, 2) for name in ("ann", "ben")]
CEM = toy.Letters("cem", "cem", 6)


async def test_a_rollout_is_closed_once_at_the_end_of_its_episode_and_not_at_a_stop_invariant_5(
    make_cast: MakeCast,
) -> None:
    track = closing()
    known = env.Evaluator(track, make_cast(EmbeddedModel()))
    await known.evaluate(NATIVE, WRITERS, stages=1)
    assert track.closed == []
    await known.evaluate(NATIVE, WRITERS[:1])
    assert track.closed == [(NATIVE.key, "ann")]
    await known.evaluate(NATIVE, WRITERS[1:])
    await known.leave(NATIVE)
    assert track.closed == [(NATIVE.key, "ann"), (NATIVE.key, "ben")]


async def test_leaving_a_policy_closes_its_rollouts_and_no_others_invariant_5(make_cast: MakeCast) -> None:
    track = closing()
    known = env.Evaluator(track, make_cast(EmbeddedModel()))
    for policy in (NATIVE, AWI):
        await known.evaluate(policy, WRITERS, stages=1)
    await known.leave(NATIVE)
    assert sorted(track.closed) == [(NATIVE.key, "ann"), (NATIVE.key, "ben")]
    await known.leave(NATIVE)
    assert len(track.closed) == 2
    await known.leave(AWI)
    assert sorted(track.closed[2:]) == [(AWI.key, "ann"), (AWI.key, "ben")]


async def test_a_rollout_that_raises_is_closed_and_so_are_those_beside_it_invariant_5(make_cast: MakeCast) -> None:
    track = closing(broken=["ben"])
    known = env.Evaluator(track, make_cast(EmbeddedModel()))
    with pytest.raises(ZeroDivisionError, match="ben"):
        await known.evaluate(NATIVE, WRITERS)
    assert sorted(track.closed) == [(NATIVE.key, "ann"), (NATIVE.key, "ben")]


async def test_what_was_under_way_is_closed_when_bounds_cannot_be_looked_for_invariant_5(
    make_model: MakeModel, make_cast: MakeCast
) -> None:
    track, model = closing(), make_model(answer="{}", upper_bound=unless("globe", ZeroDivisionError, says="{}"))
    known = env.Evaluator(track, make_cast(model))
    await known.evaluate(NATIVE, WRITERS, stages=1)
    with pytest.raises(ZeroDivisionError):
        await known.evaluate(NATIVE, [*WRITERS, CEM])
    await known.leave(NATIVE)
    assert {name for _, name in track.closed} == {"ann", "ben", "cem"}


async def test_what_was_under_way_stays_so_when_another_episode_cannot_begin_invariants_4_5(
    make_model: MakeModel, make_cast: MakeCast
) -> None:
    track, model = closing(), make_model(answer="{}", upper_bound="{}")
    known = env.Evaluator(track, make_cast(model))
    await known.evaluate(NATIVE, WRITERS, stages=1)
    replays = {name: Episode(name, "", ()) for name in ("ann", "ben")}
    with pytest.raises(RecordError, match="cem: no episode is recorded"):
        await known.evaluate(NATIVE, [*WRITERS, CEM], replays=replays)
    assert track.closed == []
    await known.leave(NATIVE)
    assert {name for _, name in track.closed} == {"ann", "ben"}


async def test_a_rollout_of_an_episode_that_failed_is_closed_too_invariant_5(
    make_model: MakeModel, make_cast: MakeCast
) -> None:
    track, model = closing(), make_model(answer=unless("lantern", says="{}"), upper_bound="{}")
    evaluation = await env.Evaluator(track, make_cast(model)).evaluate(NATIVE, WRITERS)
    assert set(evaluation.failures) == {"ann", "ben"}
    assert sorted(track.closed) == [(NATIVE.key, "ann"), (NATIVE.key, "ben")]
