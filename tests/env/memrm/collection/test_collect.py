"""Labelled writes of a track that is no dialogue.

1. Rows name groups, tasks and stages.
2. Facts are lost by policies that keep little, and kept by those that keep all.
"""

from __future__ import annotations

import pytest

import toy
from mnemotune.env import Cast
from mnemotune.env.memrm.collection.collect import CollectedEpisode, collect
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates

TASK = toy.Letters("letters-0", "writer-0", 6)


def policy(name: str, **values: object) -> MemoryPolicy:
    return MemoryPolicy.model_validate(load_policy(name).model_dump() | {"buffer_size": 2, "update_every": 2} | values)


@pytest.fixture(scope="module")
def episodes() -> list[CollectedEpisode]:
    import asyncio

    cast = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder())
    policies = {p.key: p for p in (policy("rag"), policy("awi"), load_policy("native"))}
    return asyncio.run(collect(toy.LettersTrack(Templates.bundled()), TASK, policies, cast, seed=0))


def test_rows_name_groups_tasks_and_stages_invariant_1(episodes: list[CollectedEpisode]) -> None:
    rows = [row for episode in episodes for row in episode.rows]
    assert {(row.group, row.task) for row in rows} == {("writer-0", "letters-0")}
    assert {row.stage for row in rows} == set(range(1, 6))
    assert {fact.topic for row in rows for fact in row.facts} == {"things"}


def test_what_writes_all_down_loses_nothing_invariant_2(episodes: list[CollectedEpisode]) -> None:
    verbatim, _, native = episodes
    assert verbatim.failure is None
    assert [fact.lost for row in verbatim.rows for fact in row.facts if fact.message is not None].count(False) >= 3
    assert {row.label for row in verbatim.rows} == {"SAFE"}
    assert native.rows == ()


def test_every_check_has_a_retrieval(episodes: list[CollectedEpisode]) -> None:
    for episode in episodes:
        assert episode.retrievals is not None
        assert [row.check for row in episode.retrievals.checks] == list(TASK.checks)
