"""A process keeps few questions waiting, since each holds all that memory puts before it."""

from __future__ import annotations

import asyncio

import pytest

from mnemotune.env.runner import QUESTIONS_A_TASK, Here
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates
from toy import LettersTrack


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


@pytest.mark.parametrize("most", [1, 2])
async def test_questions_beyond_a_few_for_each_task_wait_without_their_context(most: int) -> None:
    model, track = Slow(), LettersTrack(Templates.bundled())
    cast = Cast(model, model, LexicalEmbedder())
    tasks = track.load("letters:2:6")
    episodes = await Here(track, cast, most=most).run(load_policy("rag"), tasks)
    assert all(episode.failure is None for episode in episodes)
    assert sum(len(stage.marks) for episode in episodes for stage in episode.stages) == len(tasks) * 21
    assert most < model.most <= QUESTIONS_A_TASK * most
