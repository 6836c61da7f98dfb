"""Labels of what happens, on the tools track, whose databases can be forked: 1. a memory that is whole shows the same;
2. a row is SAFE where the same is seen; 3. the episode goes its own way; 4. no row tells a model what was done."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from mnemotune.data.task import Task
from mnemotune.env import Cast, DialogueTrack
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.memrm.collection.collect import CollectedEpisode, collect
from mnemotune.env.memrm.collection.execution import NotPlannedError, execute, foreign_lines
from mnemotune.env.memrm.collection.labels import EpisodeLabels
from mnemotune.env.memrm.collection.perturbations import DAMAGES
from mnemotune.env.memrm.evaluation.quality import quality_on_rows
from mnemotune.env.memrm.model.render import statements
from mnemotune.env.memrm.training.examples import labelled
from mnemotune.env.outside import Outside
from mnemotune.env.tools.track import ToolsTrack
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates


@pytest.fixture(scope="module")
def track() -> ToolsTrack:
    return ToolsTrack(Templates.bundled())


@pytest.fixture(scope="module")
def tasks(track: ToolsTrack) -> Sequence[Task]:
    return track.load("generated:3@5")


def cast() -> Cast:
    return Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(dimensions=1024), 500)


async def executed(
    track: ToolsTrack, tasks: Sequence[Task], seed: int = 0, *, most: int | None = None
) -> EpisodeLabels:
    foreign = foreign_lines(tasks)[tasks[0].group]
    return await execute(
        track,
        tasks[0],
        load_policy("rag"),
        cast(),
        forks=Outside(),
        foreign=foreign,
        rng=random.Random(seed),
        most=most,
    )


@pytest.fixture(scope="module")
def collected(track: ToolsTrack, tasks: Sequence[Task]) -> CollectedEpisode:
    policy = load_policy("rag")
    foreign = foreign_lines(tasks)[tasks[0].group]
    [episode] = asyncio.run(collect(track, tasks[0], {policy.key: policy}, cast(), seed=1, foreign=foreign))
    return episode


def test_with_a_memory_that_is_whole_the_same_is_seen_each_time(collected: CollectedEpisode) -> None:
    assert collected.failure is None
    assert collected.labels.controls == collected.labels.controls_safe > 0


def test_a_row_is_safe_where_the_same_is_seen_and_both_labels_occur(collected: CollectedEpisode) -> None:
    for row in collected.rows:
        assert row.execution is not None
        assert row.harmful != row.execution.same
        assert row.execution.same or row.execution.recorded != row.execution.proposed
        assert row.execution.perturbation in DAMAGES
    assert {row.label for row in collected.rows} == {"SAFE", "HARMFUL"}


async def test_every_damage_has_changed_memory(
    track: ToolsTrack, tasks: Sequence[Task], collected: CollectedEpisode
) -> None:
    (episode,) = (await Evaluator(track, cast()).evaluate(load_policy("rag"), [tasks[0]])).episodes
    writes = [event.write for stage in episode.stages for event in stage.events if event.write is not None]
    for row in collected.rows:
        assert tuple(row.before) == writes[row.write].before
        assert tuple(row.after) != writes[row.write].after


async def test_the_same_seed_gives_the_same_rows_and_another_one_other_damages(
    track: ToolsTrack, tasks: Sequence[Task]
) -> None:
    first = await executed(track, tasks)
    assert first == await executed(track, tasks)
    assert first.rows != (await executed(track, tasks, 1)).rows


async def test_of_more_forking_points_so_many_are_drawn(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    every = (await executed(track, tasks)).controls
    assert [(await executed(track, tasks, most=most)).controls for most in (1, 2)] == [1, 2]
    assert every > 2


def test_no_prompt_of_a_reward_model_has_the_damage_or_an_action(collected: CollectedEpisode) -> None:
    for row in collected.rows:
        assert row.execution is not None
        other = row.model_copy(update={"execution": None})
        assert [s.prompt for s in statements(row.event)] == [s.prompt for s in statements(other.event)]
        assert all(name not in s.prompt.text for name in DAMAGES for s in statements(row.event))


def test_rows_of_executions_can_be_learned_from(collected: CollectedEpisode) -> None:
    labels = {safe for row in collected.rows for _, safe in labelled(row)}
    assert labels == {True, False}


def test_their_quality_is_told_beside_the_actions_and_the_name_of_the_damage(
    collected: CollectedEpisode,
) -> None:
    import numpy as np

    quality = quality_on_rows(np.full(len(collected.rows), 0.5), collected.rows)
    assert quality.baselines["equal actions"] == 1  # equal actions show the same
    assert "perturbation" in quality.baselines


async def test_a_track_without_a_plan_is_refused(tasks: Sequence[Task]) -> None:
    with pytest.raises(NotPlannedError, match="dialogue: its steps are not planned"):
        await execute(
            DialogueTrack(),
            tasks[0],
            load_policy("rag"),
            cast(),
            forks=Outside(),
            foreign=(),
            rng=random.Random(0),
        )


def test_foreign_lines_are_other_groups(tasks: Sequence[Task]) -> None:
    for task in tasks:
        others = {fact.text for other in tasks if other.group != task.group for fact in other.facts.values()}
        assert set(foreign_lines(tasks)[task.group]) == others
