"""Default prompts in other words have the effect of the default prompts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from mnemotune.env import Evaluation
from mnemotune.experiments.embedded_model.arms import evaluate
from mnemotune.policies.files import load_policy
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates, render

DATA = "generated:4@5"
TESTS = Path(__file__).parents[2] / "policies/lm/embedded"
PARAPHRASES, HELD_BACK = (
    yaml.safe_load((TESTS / name).read_text(encoding="utf-8"))
    for name in ("paraphrases.yaml", "paraphrases_held_back.yaml")
)
PLACES = {"facts": ("awe", "write"), "profile": ("awi", "write"), "merge": ("awe", "merge"), "reply": ("awe", "reply")}
"""The preset and the slot that a kind of prompt stands in."""


@cache
def base(preset: str) -> Evaluation:
    return evaluate(load_policy(preset), DATA)


def in_other_words(preset: str, slot: str, text: str) -> MemoryPolicy:
    policy = load_policy(preset)
    text = render(text, info_types=Templates.bundled().info_types)
    prompts = {**policy.prompts.model_dump(), slot: text}
    return MemoryPolicy.model_validate({**policy.model_dump(), "prompts": prompts})


@pytest.mark.slow
@pytest.mark.exhaustive("text")
@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind in PLACES for text in (*PARAPHRASES[kind], *HELD_BACK[kind])]
)
def test_a_default_prompt_in_other_words_scores_as_the_default_one_within_its_noise(kind: str, text: str) -> None:
    preset, slot = PLACES[kind]
    score = base(preset).memory_score
    other = evaluate(in_other_words(preset, slot, text), DATA).memory_score
    assert abs(other.mean - score.mean) < (score.high - score.low) / 2
