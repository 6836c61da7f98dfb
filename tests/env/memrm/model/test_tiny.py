"""The bundled checkpoint.

1. It is small, and runs without torch.
2. Torch gives the scores that ONNX gives.
3. It tells a statement that is kept from one that is lost, also of users that it has never met.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env import Cast, DialogueTrack
from mnemotune.env.memrm.collection.collect import collect
from mnemotune.env.memrm.evaluation.quality import quality_on_rows
from mnemotune.env.memrm.forecasting.forecast import read_forecast
from mnemotune.env.memrm.model.blend import load_reward
from mnemotune.env.memrm.model.scoring import TINY, MemRM, load_memrm
from mnemotune.env.memrm.rows.row import Row
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import MemoryEvent

SAID = "These days I commute by folding bicycle, small wheels and all."


@pytest.fixture(scope="module")
def tiny() -> MemRM:
    return load_memrm("tiny")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    import asyncio

    [life] = generate_scenarios(users=1, seed=909)
    cast = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder())
    policies = {policy.key: policy for policy in map(load_policy, ("awi", "awe"))}
    episodes = asyncio.run(collect(DialogueTrack(), life, policies, cast, seed=0, writes=30))
    return [row for episode in episodes for row in episode.rows]


def write(*after: str) -> MemoryEvent:
    return MemoryEvent((Message("user", SAID), Message("assistant", "How nice.")), (), after)


def test_it_is_small_invariant_1() -> None:
    assert sum(file.stat().st_size for file in TINY.iterdir()) <= 20_000_000
    assert not [file.name for file in TINY.iterdir() if file.suffix in {".bin", ".pt", ".pkl"}]


def test_it_runs_without_torch_invariant_1() -> None:
    script = (
        "import sys; sys.modules['torch'] = None; sys.modules['sklearn'] = None\n"
        "from mnemotune.env.memrm.model.scoring import folder_of\n"
        "from mnemotune.env.memrm.model.blend import load_reward\n"
        "from mnemotune.env.memrm.forecasting.forecast import read_forecast\n"
        "from mnemotune.policies.lm import Message\n"
        "from mnemotune.policies.memory import MemoryEvent\n"
        "event = MemoryEvent((Message('user', 'I live in a flat.'),), (), ('home: a flat',))\n"
        "print(load_reward('tiny').score([event])[0], len(read_forecast(folder_of('tiny')).trees))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    score, trees = done.stdout.split()
    assert 0 < float(score) < 1
    assert int(trees) > 10


def test_torch_gives_the_scores_of_onnx_invariant_2(tiny: MemRM, rows: list[Row]) -> None:
    pytest.importorskip("torch", reason="only who trains has torch")
    events = [row.event for row in rows]
    np.testing.assert_allclose(load_memrm("tiny", torch=True).score(events), tiny.score(events), atol=1e-4)


def test_what_is_kept_is_safe_and_what_is_lost_is_not_invariant_3(tiny: MemRM) -> None:
    kept, lost = tiny.score([write(f"user: {SAID}"), write("weather: It rained all week")])
    assert kept > 0.9
    assert lost < kept - 0.3


def test_it_tells_safe_writes_from_harmful_ones_of_a_user_that_it_never_met_invariant_3(
    tiny: MemRM, rows: list[Row]
) -> None:
    found = quality_on_rows(load_reward("tiny").score([row.event for row in rows]), rows)
    assert found.figures["auroc"] > 0.95
    assert found.unscored == 0


def test_it_has_a_forecast() -> None:
    assert read_forecast(TINY).trees


@pytest.mark.parametrize("change", [lambda event: write(*event.after, "\x00"), lambda _: MemoryEvent((), (), ())])
def test_what_is_no_text_or_empty_is_not_scored(tiny: MemRM, change: Callable[[Any], MemoryEvent]) -> None:
    good = write(f"user: {SAID}")
    scores = tiny.score([good, change(good)])
    assert not np.isnan(scores[0])
    assert np.isnan(scores[1])


def test_the_folder_is_part_of_the_package() -> None:
    assert {file.name for file in Path(TINY).iterdir()} == {
        "config.json",
        "forecast.json",
        "memrm.json",
        "model.onnx",
        "model.safetensors",
        "tokenizer.json",
        "trees.json",
    }
