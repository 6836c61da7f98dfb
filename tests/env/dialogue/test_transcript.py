"""Off-policy: recorded talks are listened to instead of talked.

Invariants:

1. A policy that listens to its own talks writes, answers and scores as it did when it talked.
2. Nobody talks: no reply and no simulated user is called.
3. A talk that is not the scenario's is refused before any call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Episode, Evaluation, Protocol
from mnemotune.env.dialogue.record import Turn, events_of, sessions_of
from mnemotune.env.dialogue.transcript import check_talk, read_transcripts
from mnemotune.env.episode import Event, RecordError, StageRecord, write_episodes
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import Message
from staged import evaluator

if TYPE_CHECKING:
    from ..conftest import MakeCast, MakeModel, MakeScenario

CHANGES = {1: {"pet_0": "mid"}, 2: {"flat_1": "mid"}}


@pytest.fixture
def lives(make_scenario: MakeScenario) -> list[Scenario]:
    return [make_scenario(user=name, sessions=(4, 2, 2), changes=CHANGES) for name in ("ann", "ben")]


Talk = tuple[tuple[tuple[Turn, ...], ...], ...]
"""What was said: the rounds of each session of each period."""


def talks(evaluation: Evaluation) -> dict[str, Episode]:
    return {episode.task: episode for episode in evaluation.episodes}


def talk_of(episode: Episode) -> Talk:
    return tuple(sessions_of(stage) for stage in episode.stages)


def said_in(episodes: Mapping[str, Episode]) -> dict[str, Talk]:
    return {user: talk_of(episode) for user, episode in episodes.items()}


def recorded_as(user: str, talk: Talk) -> Episode:
    return Episode(user, "", tuple(StageRecord(events_of(sessions)) for sessions in talk))


@pytest.mark.parametrize("preset", presets())
async def test_listening_to_its_own_talks_a_policy_answers_as_it_did_invariants_1_2(
    preset: str, lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast
) -> None:
    policy = load_policy(preset)
    talked = await evaluator(make_cast(make_model())).evaluate(policy, lives)
    model = make_model()
    listened = await evaluator(make_cast(model)).evaluate(policy, lives, replays=talks(talked))
    assert listened.groups == talked.groups
    assert [e.stages for e in listened.episodes] == [e.stages for e in talked.episodes]
    assert not model.asked("reply")
    assert not model.asked("user")


async def test_another_policys_talks_are_remembered_under_ones_own_policy(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast
) -> None:
    """What the other assistant said is in memory, too."""
    native = await evaluator(make_cast(make_model(reply="Marmalade."))).evaluate(load_policy("native"), lives)
    model = make_model()
    found = await evaluator(make_cast(model)).evaluate(load_policy("rag"), lives, replays=talks(native))
    last = found.episodes[0].stages[-1].writes[-1]
    assert "assistant: Marmalade." in last.after


# Where talks come from


async def played(lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast) -> Evaluation:
    return await evaluator(make_cast(make_model())).evaluate(load_policy("native"), lives)


async def test_talks_are_read_from_what_an_evaluation_wrote(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    evaluation = await played(lives, make_model, make_cast)
    write_episodes(tmp_path, evaluation.episodes)
    assert said_in(read_transcripts(tmp_path)) == said_in(talks(evaluation))


async def test_talks_are_read_from_amemgyms_folders(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    evaluation = await played(lives, make_model, make_cast)
    for episode in evaluation.episodes:
        for p, stage in enumerate(episode.stages):
            file = tmp_path / episode.task / "interactions" / f"period_{p:02d}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            sessions = [
                [
                    message
                    for turn in turns
                    for message in (
                        {"role": "user", "content": turn.user},
                        {"role": "assistant", "content": turn.assistant},
                    )
                ]
                for turns in sessions_of(stage)
            ]
            file.write_text(json.dumps(sessions), encoding="utf-8")
    assert said_in(read_transcripts(tmp_path)) == said_in(talks(evaluation))


def test_a_folder_without_talks_is_refused_with_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"neither episodes\.jsonl, .* nor USER/interactions/period_00\.json"):
        read_transcripts(tmp_path)


def test_periods_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "ann" / "interactions"
    folder.mkdir(parents=True)
    for p in range(102):
        said = [{"role": "user", "content": f"Period {p}."}, {"role": "assistant", "content": "I see."}]
        (folder / f"period_{p:02d}.json").write_text(json.dumps([said]), encoding="utf-8")
    [episode] = read_transcripts(tmp_path).values()
    assert [sessions_of(stage)[0][0].user for stage in episode.stages] == [f"Period {p}." for p in range(102)]


@pytest.mark.parametrize("text", ["{", "7", '[[{"role": "user", "content": "a"}]]', '[[{"content": "a"}]]', '["x"]'])
def test_a_period_that_is_none_of_amemgyms_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "ann" / "interactions" / "period_00.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RecordError, match=r"period_00\.json: is no period of AMemGym's interactions"):
        read_transcripts(tmp_path)


# Talks of something else


def other_opening(talk: Talk) -> Talk:
    return (((Turn("Hello?", "Hi."),), *talk[0][1:]), *talk[1:])


DAMAGES: list[tuple[Callable[[Talk], Talk], str]] = [
    (lambda talk: talk[:-1], "user ann: 2 periods are recorded, and the scenario has 3"),
    (lambda talk: (talk[0][1:], *talk[1:]), "user ann, period 0: 3 sessions are recorded, not 4"),
    (lambda talk: (talk[0], (talk[1][0][:1], *talk[1][1:]), talk[2]), "user ann, period 1, session 0: 1 rounds"),
    (other_opening, "user ann, period 0, session 0: another opening is recorded: 'Hello\\?'"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGES)
async def test_a_talk_that_is_not_the_scenarios_is_refused_before_any_call_invariant_3(
    damage: Any, said: str, lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast
) -> None:
    recorded = talks(await played(lives, make_model, make_cast))
    model = make_model()
    with pytest.raises(RecordError, match=said):
        await evaluator(make_cast(model)).evaluate(
            load_policy("awi"), lives, replays=recorded | {"ann": recorded_as("ann", damage(talk_of(recorded["ann"])))}
        )
    assert model.requests == []


async def test_rounds_of_another_kind_of_task_are_refused(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast
) -> None:
    recorded = talks(await played(lives, make_model, make_cast))["ann"]
    alone = StageRecord((Event(0, "say", (Message("user", "Hello?"),)),))
    with pytest.raises(RecordError, match="user ann, period 1: a round is recorded that is not what the user said and"):
        check_talk(replace(recorded, stages=(recorded.stages[0], alone, recorded.stages[2])), lives[0], Protocol())


async def test_a_user_without_a_talk_is_named_before_any_call_invariant_3(
    lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast
) -> None:
    recorded, model = talks(await played(lives, make_model, make_cast)), make_model()
    with pytest.raises(RecordError, match="ben: no episode is recorded; there are 1 others"):
        await evaluator(make_cast(model)).evaluate(load_policy("awi"), lives, replays={"ann": recorded["ann"]})
    assert model.requests == []


async def test_rounds_are_the_protocols(lives: list[Scenario], make_model: MakeModel, make_cast: MakeCast) -> None:
    recorded = talks(await played(lives, make_model, make_cast))
    with pytest.raises(RecordError, match="period 1, session 0: 2 rounds are recorded, not 3"):
        check_talk(recorded["ann"], lives[0], replace(Protocol(), rounds_update=3))
