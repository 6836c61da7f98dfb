"""What a memory would still tell.

1. While the buffer has everything, everything is told.
2. A memory that writes nothing tells nothing of what left its buffer.
3. Nothing is asked of the model but what the policy writes with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from mnemotune.data import Scenario
from mnemotune.data.generator import generate_scenarios
from mnemotune.env import Cast, Protocol, rollout
from mnemotune.env.memrm.recalling import Recalled, recall
from mnemotune.env.memrm.render import statements
from mnemotune.env.memrm.scoring import Scores
from mnemotune.env.transcript import Transcript, talks_of
from mnemotune.policies.lm.budget import Metered
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.memory import MemoryEvent
from mnemotune.policies.policy import MemoryPolicy, load_policy
from mnemotune.policies.text import LexicalEmbedder


class Words:
    """A reward model that believes in words: P(safe) is the share of statements of which all words are there."""

    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        return np.array([self._one(event) for event in events], dtype=np.float64)

    def _one(self, event: MemoryEvent) -> float:
        told = [statement.prompt.suffix.split() for statement in statements(event)]
        return float(np.mean([words[0] == words[2] for words in told]))


class Unable(Words):
    def score(self, events: Sequence[MemoryEvent]) -> Scores:
        return np.full(len(events), math.nan)


@pytest.fixture(scope="module")
def life() -> Scenario:
    [scenario] = generate_scenarios(users=1, seed=3)
    return scenario.model_copy(update={"periods": scenario.periods[:3]})


@pytest.fixture
def model() -> Metered:
    return Metered(EmbeddedModel())


@pytest.fixture
def recalled(
    life: Scenario, model: Metered, run_virtually: Callable[..., tuple[object, float]]
) -> Callable[..., Recalled]:
    cast = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(), Protocol())
    episode = run_virtually(rollout(life, load_policy("native"), cast))[0]
    talk: Transcript = talks_of([episode])[life.id]  # type: ignore[list-item]

    def found(policy: MemoryPolicy, reward: Words | None = None) -> Recalled:
        asked = recall(
            policy, life, talk, reward or Words(), model=model, embedder=cast.embedder, protocol=cast.protocol
        )
        return run_virtually(asked)[0]  # type: ignore[return-value]

    return found


def changed(policy: MemoryPolicy, **values: object) -> MemoryPolicy:
    return MemoryPolicy.model_validate(policy.model_dump() | values)


def test_a_buffer_that_has_everything_tells_everything(recalled: Callable[..., Recalled], model: Metered) -> None:
    assert recalled(load_policy("native")).share == 1
    assert model.ledger.total.calls == 0


def test_verbatim_lines_tell_what_comes_back_of_them(recalled: Callable[..., Recalled], model: Metered) -> None:
    rag = load_policy("rag")
    few, many = (recalled(changed(rag, top_k=k)) for k in (2, 500))
    assert 0 < few.share < many.share == 1
    assert few.words < many.words
    assert model.ledger.total.calls == 0, "verbatim lines are written without a model"


def test_a_policy_that_writes_asks_the_model_for_that_alone(recalled: Callable[..., Recalled], model: Metered) -> None:
    assert 0 < recalled(load_policy("awi")).share < 1
    assert set(model.ledger.by_role) == {"write"}


def test_what_cannot_be_scored_is_nan(recalled: Callable[..., Recalled]) -> None:
    assert math.isnan(recalled(load_policy("awi"), Unable()).share)
