"""Labels of what happens in containers: a memory that is whole shows the same, and a damaged one may not."""

from __future__ import annotations

import random

import pytest

from mnemotune.env.memrm.collection.execution import execute, foreign_lines
from mnemotune.env.outside import Outside
from mnemotune.env.swe.track import SweTrack
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates


@pytest.mark.usefixtures("engine")
async def test_a_command_is_carried_out_again_in_a_container_of_its_own(outside: Outside) -> None:
    track, forks = SweTrack(Templates.bundled()), Outside()
    tasks = track.load("generated:1@5")[:2]
    cast = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(dimensions=1024), 500, outside=outside)
    foreign, rng = foreign_lines(tasks)[tasks[0].group], random.Random(0)
    labels = await execute(track, tasks[0], load_policy("rag"), cast, forks=forks, foreign=foreign, rng=rng)
    await forks.aclose()
    assert labels.controls == labels.controls_safe > 0
    assert {row.label for row in labels.rows} == {"SAFE", "HARMFUL"}
    for row in labels.rows:
        assert row.execution is not None
        assert row.execution.same == (row.execution.recorded == row.execution.proposed)
