"""A talk and a chain of searches with a real, if weak, model; ``pytest -m model -n 0`` runs them."""

from __future__ import annotations

import logging

import pytest
from weak_model import url as url

from mnemotune.env.research.model import ModelResearchTrack
from mnemotune.env.tools.model import ModelToolsTrack
from mnemotune.env.track import Cast, Track
from mnemotune.policies import load_policy
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.prompts import Templates

MOST_TOKENS = {"reply": 60, "user": 60, "answer": 60, "probe": 60, "write": 100, "upper_bound": 60}
"""It rambles until it is cut."""

_log = logging.getLogger(__name__)


@pytest.mark.model
@pytest.mark.parametrize(
    ("track", "source"),
    [(ModelToolsTrack(Templates.bundled()), "generated:1@3"), (ModelResearchTrack(), "generated:1@3")],
    ids=["tools", "research"],
)
async def test_a_weak_model_that_is_offered_tools_plays_a_stage(url: str, track: Track, source: str) -> None:
    model = OpenAIModel("m", base_url=url, max_tokens=MOST_TOKENS, concurrency=1, timeout_seconds=600)
    cast = Cast(model, model, LexicalEmbedder(), context_tokens=400)
    rollout = track.begin(track.load(source)[0], load_policy("rag"), cast)
    try:
        episode = await rollout.run(1)
    finally:
        await rollout.aclose()
        await model.aclose()
    assert episode.failure is None
    assert len(episode.stages) == 1
    for event in episode.stages[0].events:
        _log.info("%s: %s", event.kind, " / ".join(message.content for message in event.seen)[:200])
