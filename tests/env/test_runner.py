"""A process keeps few questions waiting, since each holds its words and all that memory puts before it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from mnemotune.env import DialogueTrack
from mnemotune.env.runner import QUESTIONS_A_TASK, Here
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, LanguageModelError, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates
from toy import LettersTrack

if TYPE_CHECKING:
    from .conftest import MakeModel, MakeScenario

PERIODS, QUESTIONS = 12, 10
LISTS = 3
"""Of questions in a period: as they are, reworded, and probes."""


class Slow(LanguageModel):
    """Notes how many calls wait for it at most."""

    name = "slow"

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0

    async def complete(self, request: Request) -> Completion:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0.002)
        self.waiting -= 1
        return await EmbeddedModel().complete(request)


class Named(LanguageModel):
    """Notes who of a family is asked for what."""

    name = "named"

    def __init__(self) -> None:
        self.asked = set[tuple[str, str]]()

    async def complete(self, request: Request) -> Completion:
        self.asked.add((request.role, request.reader))
        return await EmbeddedModel().complete(request)


async def test_each_group_has_its_reader_and_the_simulated_user_is_always_the_same(make_scenario: MakeScenario) -> None:
    family, user = Named(), Named()
    cast = Cast(family, user, LexicalEmbedder(), readers={"ann": "gpt-4o-mini"})
    here = Here(DialogueTrack(), cast)
    scenario = make_scenario()
    await here.run(load_policy("awe"), [scenario])
    assert {reader for _, reader in family.asked} == {"gpt-4o-mini"}
    family.asked.clear()
    await here.bounds(scenario)
    assert {reader for _, reader in family.asked} == {"gpt-4o-mini"}
    assert {reader for _, reader in user.asked} == {""}
    other = Named()
    await Here(DialogueTrack(), Cast(other, user, LexicalEmbedder())).run(load_policy("native"), [scenario])
    assert {reader for _, reader in other.asked} == {""}


@pytest.mark.parametrize("most", [1, 2])
async def test_questions_beyond_a_few_for_each_task_wait_without_their_context(most: int) -> None:
    model, track = Slow(), LettersTrack(Templates.bundled())
    cast = Cast(model, model, LexicalEmbedder())
    tasks = track.load("letters:2:6")
    episodes = await Here(track, cast, most=most).run(load_policy("rag"), tasks)
    assert all(episode.failure is None for episode in episodes)
    assert sum(len(stage.marks) for episode in episodes for stage in episode.stages) == len(tasks) * 21
    assert most < model.most <= QUESTIONS_A_TASK * most


@pytest.mark.parametrize("most", [1, 2])
async def test_questions_that_pile_up_behind_the_talk_are_not_even_put_into_words(
    most: int, make_scenario: MakeScenario, make_model: MakeModel
) -> None:
    at_once = 0

    def delay(request: Request) -> float:
        nonlocal at_once
        at_once = max(at_once, len(asyncio.all_tasks()))
        return 0.01 if request.role in {"answer", "probe"} else 0.0

    lives = [make_scenario(user=user, sessions=(1,) * PERIODS, questions=QUESTIONS) for user in ("ann", "ben")]
    model = make_model(delay=delay)
    cast = Cast(model, model, LexicalEmbedder(), reworded=True)
    episodes = await Here(DialogueTrack(), cast, most=most).run(load_policy("native"), lives)
    asked = [len(stage.marks) + len(stage.reworded) for episode in episodes for stage in episode.stages]
    assert asked == [2 * QUESTIONS] * PERIODS * len(lives)
    under_way, lists = QUESTIONS_A_TASK * most, LISTS * PERIODS * most
    assert QUESTIONS < at_once <= under_way * QUESTIONS + lists + 2 * len(lives) + 1 < lists * QUESTIONS


async def test_an_episode_that_fails_leaves_no_question_in_line(
    make_scenario: MakeScenario, make_model: MakeModel
) -> None:
    model = make_model(answer=lambda _: (_ for _ in ()).throw(LanguageModelError("no answer")))
    lives = [make_scenario(user=user, sessions=(1,) * PERIODS, questions=QUESTIONS) for user in ("ann", "ben")]
    cast = Cast(model, model, LexicalEmbedder(), reworded=True)
    episodes = await Here(DialogueTrack(), cast, most=1).run(load_policy("native"), lives)
    assert [episode.failure for episode in episodes] == ["no answer"] * 2
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_lists_of_one_question_fill_all_places(make_scenario: MakeScenario, make_model: MakeModel) -> None:
    model = make_model(delay=lambda request: 0.01 if request.role in {"answer", "probe"} else 0.0)
    cast = Cast(model, model, LexicalEmbedder())
    await Here(DialogueTrack(), cast, most=1).run(
        load_policy("native"), [make_scenario(sessions=(1,) * PERIODS, questions=1)]
    )
    assert model.peak["answer"] + model.peak["probe"] >= QUESTIONS_A_TASK
