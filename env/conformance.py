"""The tests that every track passes: its test module inherits ``TrackConformance`` and gives two fixtures.

A track whose agent plans by itself inherits ``ModelTrackConformance``.

    class TestMyTrack(TrackConformance):
        @pytest.fixture(scope="class")
        @classmethod
        def track(cls) -> Track:
            return MyTrack()

        @pytest.fixture(scope="class")
        @classmethod
        def source(cls) -> str:
            return "some small source of two groups or more"

pytest and pytest-asyncio (``asyncio_mode = "auto"``) must be installed.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ..data.task import Task, checks_at, grouped
from ..policies.files import load_policy
from ..policies.lm.embedded import EmbeddedModel
from ..policies.lm.lexical import LexicalEmbedder
from ..policies.policy import MemoryPolicy
from .cost import turn_cost
from .episode import Bounds, Episode, RecordError, write_episodes
from .evaluation import Evaluator
from .runner import Here
from .track import Cast, Track, most_calls

UNRECORDED = ("probe", "embed")
"""Roles of calls that a check need not have: a stage's facts are asked for at its end, and texts are embedded."""


class TrackConformance:
    """Every track passes these, with the embedded model in all roles."""

    @pytest.fixture(scope="class")
    @classmethod
    def tasks(cls, track: Track, source: str) -> Sequence[Task]:
        """Tasks of two groups or more, of which the first is played."""
        return track.load(source)

    @pytest.fixture
    def cast(self) -> Cast:
        """Who takes part."""
        return Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder())

    @pytest.fixture(params=("native", "awe", "awi"))
    def policy(self, request: pytest.FixtureRequest) -> MemoryPolicy:
        """Policies that differ in what they write and where."""
        return load_policy(str(request.param))

    @pytest.fixture
    async def episode(self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy, cast: Cast) -> Episode:
        """The whole episode of a policy in the first task."""
        return await _play(track, tasks[0], policy, cast)

    def test_loading_gives_the_same_tasks_each_time(self, track: Track, source: str) -> None:
        first, second = track.load(source), track.load(source)
        assert [task.id for task in first] == [task.id for task in second]
        assert [dict(task.checks) for task in first] == [dict(task.checks) for task in second]

    def test_a_group_can_be_loaded_alone_and_an_unknown_group_is_named(self, track: Track, source: str) -> None:
        group = track.load(source)[-1].group
        assert {task.group for task in track.load(source, groups=[group])} == {group}
        with pytest.raises(ValueError, match="nobody-of-this-name"):
            track.load(source, groups=["nobody-of-this-name"])

    def test_ids_are_distinct(self, tasks: Sequence[Task]) -> None:
        assert len({task.id for task in tasks}) == len(tasks)
        for task in tasks:
            assert all(name == fact.id for name, fact in task.facts.items())
            assert all(name == check.id for name, check in task.checks.items())

    def test_checks_need_facts_that_hold_when_they_are_asked(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            for check in task.checks.values():
                assert 0 <= check.stage < task.stages
                assert 0 <= check.chance <= 1
                for fact in (task.facts[name] for name in check.needs):
                    assert fact.since <= check.stage
                    assert fact.until is None or check.stage < fact.until

    def test_checks_come_in_the_order_of_stages(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            stages = [check.stage for check in task.checks.values()]
            assert stages == sorted(stages)

    async def test_an_episode_records_every_stage_and_marks_every_check(
        self, tasks: Sequence[Task], policy: MemoryPolicy, episode: Episode
    ) -> None:
        task = tasks[0]
        assert (episode.task, episode.policy_key, episode.failure) == (task.id, policy.key, None)
        assert len(episode.stages) == task.stages
        for stage, record in enumerate(episode.stages):
            assert [mark.check for mark in record.marks] == [check.id for check in checks_at(task, stage)]
            for mark in record.marks:
                assert math.isnan(mark.score) or 0 <= mark.score <= 1
                assert set(mark.recalled) <= set(task.checks[mark.check].needs)
                assert mark.context or not any(mark.shown.values())

    async def test_an_episode_is_the_same_as_a_whole_and_stage_by_stage_with_each_call_recorded_once(
        self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy, cast: Cast, episode: Episode
    ) -> None:
        rollout = track.begin(tasks[0], policy, replace(cast, recorded=frozenset([tasks[0].group])))
        for stage in range(tasks[0].stages):
            assert len((await rollout.run(stage + 1)).stages) == stage + 1
        again = await rollout.run()
        await rollout.aclose()
        assert json.dumps(again.as_json(), sort_keys=True) == json.dumps(episode.as_json(), sort_keys=True)
        of_events = (call.role for stage in again.stages for event in stage.events for call in event.calls)
        of_marks = (call.role for stage in again.stages for mark in stage.marks for call in mark.calls)
        recorded = Counter([*of_events, *of_marks])
        made = {role: spend.calls for role, spend in again.ledger.by_role.items() if role not in UNRECORDED}
        assert {role: recorded[role] for role in made} == made

    async def test_an_episode_takes_no_more_calls_than_are_put_aside_for_it(
        self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy, episode: Episode
    ) -> None:
        assert 0 < episode.ledger.total.calls <= track.most_calls(tasks[0], policy)

    async def test_a_rollout_can_be_closed_before_its_end_and_twice(
        self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy, cast: Cast
    ) -> None:
        rollout = track.begin(tasks[0], policy, cast)
        await rollout.run(1)
        await rollout.aclose()
        await rollout.aclose()

    async def test_bounds_are_known_of_every_check_and_take_the_calls_that_are_put_aside(
        self, track: Track, tasks: Sequence[Task], cast: Cast
    ) -> None:
        evaluation = await Evaluator(track, cast).evaluate(load_policy("native"), tasks[:1], stages=0)
        bounds = evaluation.bounds[tasks[0].id]
        assert set(bounds.floor) == set(bounds.ceiling) == set(tasks[0].checks)
        assert evaluation.ledger.total.calls == track.bound_calls(tasks[0])

    async def test_scores_lie_between_the_bounds_and_shares_sum_to_one(
        self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy, cast: Cast
    ) -> None:
        evaluation = await Evaluator(track, cast).evaluate(policy, tasks)
        assert [score.group for score in evaluation.groups] == [group.id for group in grouped(tasks)]
        for stage in (stage for score in evaluation.groups for stage in score.stages):
            shares = (stage.diagnosis.write, stage.diagnosis.read, stage.diagnosis.utilisation)
            assert math.isnan(shares[0]) or stage.accuracy + sum(shares) == pytest.approx(1)

    async def test_what_was_heard_can_be_replayed_from_a_file(
        self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy, cast: Cast, episode: Episode, tmp_path: Path
    ) -> None:
        folder = tmp_path / "episodes"
        write_episodes(folder, [episode])
        replays = track.replays(folder)
        again = await _play(track, tasks[0], policy, cast, replay=replays[tasks[0].id])
        assert [list(stage.heard) for stage in again.stages] == [list(stage.heard) for stage in episode.stages]
        assert [stage.marks for stage in again.stages] == [stage.marks for stage in episode.stages]
        assert "reply" not in again.ledger.by_role

    async def test_every_failure_can_be_described(self, track: Track, tasks: Sequence[Task], episode: Episode) -> None:
        for stage, record in enumerate(episode.stages):
            for mark in record.marks:
                if mark.score < 1:
                    assert track.tell(tasks[0], episode, stage, mark).strip()

    async def test_episodes_are_plain_json(self, episode: Episode) -> None:
        json.loads(json.dumps(episode.as_json(), allow_nan=False))

    def test_a_needed_fact_has_prompts_that_a_senseless_reply_answers_wrongly(
        self, track: Track, tasks: Sequence[Task]
    ) -> None:
        for name in {need for check in tasks[0].checks.values() for need in check.needs}:
            prompts = list(track.fact_prompts(tasks[0], tasks[0].facts[name]))
            assert prompts
            assert all(prompt.text.strip() and not prompt.is_right("...") for prompt in prompts)

    def test_a_fact_that_words_alone_show_is_stated_by_itself_and_not_by_nothing(
        self, track: Track, tasks: Sequence[Task]
    ) -> None:
        for fact in tasks[0].facts.values():
            assert track.states(tasks[0], fact, fact.text) is not False
            assert not track.states(tasks[0], fact, "")

    def test_memory_is_asked_with_a_text_before_every_check(
        self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy
    ) -> None:
        assert all(track.query(tasks[0], check).strip() for check in tasks[0].checks.values())

    async def test_a_check_in_other_words_is_another_text_that_is_answered_and_changes_nothing_else(
        self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy, cast: Cast, episode: Episode
    ) -> None:
        checks = tasks[0].checks.values()
        texts = {check.id: text for check in checks if (text := track.reworded(tasks[0], check)) is not None}
        assert all(text.strip() and text != track.query(tasks[0], tasks[0].checks[of]) for of, text in texts.items())
        again = await _play(track, tasks[0], policy, replace(cast, reworded=True))
        assert [replace(stage, reworded=()) for stage in again.stages] == list(episode.stages)
        assert again.ledger.total.calls <= most_calls(track, [tasks[0]], [policy], reworded=True)
        assert turn_cost(again.ledger, track.turn) == turn_cost(episode.ledger, track.turn)
        marks = [mark for stage in again.stages for mark in stage.reworded]
        assert sorted(mark.check for mark in marks) == sorted(texts)
        assert not texts or any(mark.readable for mark in marks)


class ModelTrackConformance(TrackConformance):
    """Every track whose agent plans by itself passes these: what it does depends on memory, so it replays no record."""

    test_what_was_heard_can_be_replayed_from_a_file = None  # type: ignore[assignment]

    async def test_a_recorded_episode_is_refused(
        self, track: Track, tasks: Sequence[Task], policy: MemoryPolicy, cast: Cast, episode: Episode
    ) -> None:
        with pytest.raises(RecordError):
            track.begin(tasks[0], policy, cast, replay=episode)

    async def test_bounds_are_known_of_every_check_and_take_the_calls_that_are_put_aside(
        self, track: Track, tasks: Sequence[Task], cast: Cast
    ) -> None:
        bounds, ledger = await Here(track, cast).bounds(tasks[0])
        assert isinstance(bounds, Bounds)
        assert set(bounds.floor) == set(bounds.ceiling) == set(tasks[0].checks)
        assert 0 < ledger.total.calls <= track.bound_calls(tasks[0])


async def _play(
    track: Track, task: Task, policy: MemoryPolicy, cast: Cast, *, replay: Episode | None = None
) -> Episode:
    rollout = track.begin(task, policy, cast, replay=replay)
    try:
        return await rollout.run()
    finally:
        await rollout.aclose()
