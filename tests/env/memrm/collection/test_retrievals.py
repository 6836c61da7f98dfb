"""What memory shows before questions.

1. Replaying an episode's own writes shows what the episode's memory showed, without a call.
2. Nothing is asked of the model but what the policy writes with.
3. A file of showings gives back what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data import Scenario
from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env import Cast, DialogueTrack, Episode
from mnemotune.env.memrm.collection.retrievals import RecordedReplies, retrieve
from mnemotune.env.memrm.rows.retrievals import Retrieval, read_retrievals, retrieval_log, retrievals_file
from mnemotune.env.memrm.rows.row import RowError, write_rows
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm.base import LanguageModel
from mnemotune.policies.lm.budget import Metered
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.text import LexicalEmbedder

Run = Callable[[Coroutine[Any, Any, Any]], tuple[Any, float]]
CAST, TRACK = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder()), DialogueTrack()


@pytest.fixture(scope="module")
def life() -> Scenario:
    [scenario] = generate_scenarios(users=1, seed=3)
    return scenario.model_copy(update={"periods": scenario.periods[:3]})


@pytest.fixture
def played(life: Scenario, run_virtually: Run) -> Callable[[MemoryPolicy], Episode]:
    return lambda policy: run_virtually(TRACK.begin(life, policy, CAST).run())[0]


@pytest.fixture
def shown(life: Scenario, run_virtually: Run) -> Callable[..., list[Retrieval]]:
    def listened(policy: MemoryPolicy, talk: Episode, model: LanguageModel) -> list[Retrieval]:
        asked = retrieve(policy, life, talk, model=model, embedder=CAST.embedder, track=TRACK)
        return run_virtually(asked)[0]

    return listened


@pytest.mark.parametrize("name", ["awi", "awe", "rag"])
def test_recorded_writes_show_what_the_model_would_write_again_invariants_1_and_2(
    name: str, life: Scenario, played: Callable[..., Episode], shown: Callable[..., list[Retrieval]]
) -> None:
    policy, model = load_policy(name), Metered(EmbeddedModel())
    episode = played(policy)
    events = [event for period in episode.stages for event in period.writes]
    again = shown(policy, episode, RecordedReplies(events))
    assert again == shown(policy, episode, model)
    assert set(model.ledger.by_role) <= {"write"}
    written = {line for event in events for line in event.after}
    assert {line for one in again for line in one.lines} <= written


def test_a_buffer_that_has_everything_has_every_message_that_told_a_need(
    life: Scenario, played: Callable[..., Episode], shown: Callable[..., list[Retrieval]]
) -> None:
    policy, model = load_policy("native"), Metered(EmbeddedModel())
    found = shown(policy, played(policy), model)
    assert len(found) == len(life.periods) * len(life.qas)
    assert all(one.buffered == {text for texts in one.needs for text in texts} for one in found)
    assert not any(one.lines for one in found)
    assert model.ledger.total.calls == 0


def test_a_state_that_was_told_twice_has_its_newest_message_last(
    life: Scenario, played: Callable[..., Episode], shown: Callable[..., list[Retrieval]]
) -> None:
    policy = load_policy("native")
    found = shown(policy, played(policy), EmbeddedModel())
    openings = [session.opening for period in life.periods for session in period.sessions]
    several = [texts for one in found for texts in one.needs if len(texts) > 1]
    assert several
    assert all(sorted(texts, key=openings.index) == list(texts) for texts in several)


def test_a_file_of_showings_gives_back_what_was_written_invariant_3(
    life: Scenario, played: Callable[..., Episode], shown: Callable[..., list[Retrieval]], tmp_path: Path
) -> None:
    policy = load_policy("rag")
    found = shown(policy, played(policy), EmbeddedModel())
    right = [None if i == 0 else i % 3 == 0 for i in range(len(found))]
    write_rows(retrievals_file(tmp_path / "rows.jsonl"), [retrieval_log(life.id, policy.key, 0.25, found, right)])
    [read] = read_retrievals(tmp_path / "rows.jsonl.shown.jsonl")
    assert (read.user, read.policy, read.memory_score) == (life.id, policy.key, 0.25)
    assert list(read.retrievals()) == list(zip(found, right, strict=True))


def test_a_line_that_is_no_showing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.shown.jsonl"
    file.write_text('{"user": "a"}\n', encoding="utf-8")
    with pytest.raises(RowError, match=r"rows\.shown\.jsonl:1: policy: Field required"):
        list(read_retrievals(file))


def test_an_episode_without_a_score_is_read_back_too(tmp_path: Path) -> None:
    write_rows(tmp_path / "shown.jsonl", [retrieval_log("user", "policy", float("nan"), [], [])])
    [read] = read_retrievals(tmp_path / "shown.jsonl")
    assert read.memory_score is None
