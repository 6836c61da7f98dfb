"""What memory brings back before checks.

1. Replaying an episode's own writes brings back what the episode's memory brought back, without a call.
2. Nothing is asked of the model but what the policy writes with.
3. A file of logs gives back what was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lives import life as life_of
from mnemotune.data import Scenario
from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env import Cast, DialogueTrack, Episode
from mnemotune.env.memrm.collection.collect import replayed
from mnemotune.env.memrm.collection.retrievals import RecordedReplies, retrieve
from mnemotune.env.memrm.rows.retrievals import Retrieval, read_retrievals, retrieval_log, retrievals_file
from mnemotune.env.memrm.rows.row import RowError, write_rows
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import LanguageModelError, Message, Metered, Request
from mnemotune.policies.lm.base import LanguageModel
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.policy import MemoryPolicy

Run = Callable[[Coroutine[Any, Any, Any]], tuple[Any, float]]
CAST = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder())


@pytest.fixture(scope="module")
def life() -> Scenario:
    [scenario] = generate_scenarios(users=1, seed=3)
    return scenario.model_copy(update={"periods": scenario.periods[:3]})


@pytest.fixture
def played(life: Scenario, run_virtually: Run) -> Callable[[MemoryPolicy], Episode]:
    return lambda policy: run_virtually(DialogueTrack().begin(life, policy, CAST).run())[0]


@pytest.fixture
def brought_back(life: Scenario, run_virtually: Run) -> Callable[..., list[Retrieval]]:
    def listened(policy: MemoryPolicy, episode: Episode, model: LanguageModel) -> list[Retrieval]:
        track = DialogueTrack()
        return run_virtually(retrieve(policy, life, episode, model=model, cast=CAST, track=track))[0]

    return listened


@pytest.mark.parametrize("name", ["awi", "awe", "rag"])
def test_recorded_writes_show_what_the_model_would_write_again_invariants_1_and_2(
    name: str, life: Scenario, played: Callable[..., Episode], brought_back: Callable[..., list[Retrieval]]
) -> None:
    policy, model = load_policy(name), Metered(EmbeddedModel())
    episode = played(policy)
    writes = [write for stage in episode.stages for write in stage.writes]
    again = brought_back(policy, episode, RecordedReplies(writes))
    assert again == brought_back(policy, episode, model)
    assert set(model.ledger.by_role) <= {"write"}
    written = {line for write in writes for line in write.after}
    assert {line for one in again for line in one.lines} <= written


async def test_a_reply_that_was_not_recorded_is_told() -> None:
    with pytest.raises(LanguageModelError, match=r"more replies than its writes have recorded \(MemoryEvent.raw\)"):
        await RecordedReplies([]).complete(Request((Message("user", "Write."),), role="write"))


def test_a_memory_that_does_not_say_what_its_model_replied_has_no_retrievals(
    life: Scenario, played: Callable[..., Episode], run_virtually: Run
) -> None:
    policy = load_policy("awi")
    episode = played(policy)
    silent = [replace(event, write=event.write and replace(event.write, raw=())) for event in episode.stages[0].events]
    quiet = replace(episode, stages=(replace(episode.stages[0], events=tuple(silent)),))
    assert run_virtually(replayed(DialogueTrack(), life, policy, quiet, 0.5, CAST))[0] is None


def test_a_buffer_that_has_everything_has_every_message_that_told_a_need(
    life: Scenario, played: Callable[..., Episode], brought_back: Callable[..., list[Retrieval]]
) -> None:
    policy, model = load_policy("native"), Metered(EmbeddedModel())
    found = brought_back(policy, played(policy), model)
    assert len(found) == len(life.periods) * len(life.qas)
    assert all(one.buffered == {text for texts in one.needs for text in texts} for one in found)
    assert not any(one.lines for one in found)
    assert model.ledger.total.calls == 0


def test_a_state_that_was_told_twice_has_its_newest_message_last(
    life: Scenario, played: Callable[..., Episode], brought_back: Callable[..., list[Retrieval]]
) -> None:
    policy = load_policy("native")
    found = brought_back(policy, played(policy), EmbeddedModel())
    openings = [session.opening for period in life.periods for session in period.sessions]
    several = [texts for one in found for texts in one.needs if len(texts) > 1]
    assert several
    assert all(sorted(texts, key=openings.index) == list(texts) for texts in several)


def test_a_state_that_comes_back_in_the_same_words_was_told_once_each_time(run_virtually: Run) -> None:
    choices = [{"state": [pet], "answer": f"For a {pet}"} for pet in ("cat", "dog")]
    ann = life_of(
        "ann",
        sessions=(1, 1, 1),
        news=[{"pet": "cat"}, {"pet": "dog"}, {"pet": "cat"}],
        says=lambda p, s: "Hello.",
        values=("cat", "dog"),
        qas=[{"query": "What does ann need?", "required_info": ["pet"], "answer_choices": choices}],
    )
    at_once = {"session_time": ann.periods[0].sessions[0].session_time}
    sessions = [[session.model_copy(update=at_once) for session in period.sessions] for period in ann.periods]
    periods = [p.model_copy(update={"sessions": said}) for p, said in zip(ann.periods, sessions, strict=True)]
    ann = ann.model_copy(update={"periods": periods})
    policy = load_policy("native")
    episode = run_virtually(DialogueTrack().begin(ann, policy, CAST).run())[0]
    asked = retrieve(policy, ann, episode, model=EmbeddedModel(), cast=CAST, track=DialogueTrack())
    told = [period.sessions[0].opening for period in ann.periods]
    assert told[0] == told[2]
    assert [one.needs for one in run_virtually(asked)[0]] == [(tuple(told[: p + 1]),) for p in range(3)]


def test_a_file_of_logs_gives_back_what_was_written_invariant_3(
    life: Scenario, played: Callable[..., Episode], brought_back: Callable[..., list[Retrieval]], tmp_path: Path
) -> None:
    policy = load_policy("rag")
    found = brought_back(policy, played(policy), EmbeddedModel())
    right = [None if i == 0 else i % 3 == 0 for i in range(len(found))]
    write_rows(retrievals_file(tmp_path / "rows.jsonl"), [retrieval_log(life, policy.key, 0.25, found, right)])
    [read] = read_retrievals(tmp_path / "rows.jsonl.shown.jsonl")
    assert (read.group, read.task, read.policy, read.memory_score) == (life.group, life.id, policy.key, 0.25)
    assert list(read.retrievals()) == list(zip(found, right, strict=True))


def test_a_line_that_is_no_log_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.shown.jsonl"
    file.write_text('{"group": "a", "task": "a"}\n', encoding="utf-8")
    with pytest.raises(RowError, match=r"rows\.shown\.jsonl:1: policy: Field required"):
        list(read_retrievals(file))


def test_an_episode_without_a_score_is_read_back_too(life: Scenario, tmp_path: Path) -> None:
    write_rows(tmp_path / "shown.jsonl", [retrieval_log(life, "policy", float("nan"), [], [])])
    [read] = read_retrievals(tmp_path / "shown.jsonl")
    assert read.memory_score is None


def test_a_log_that_names_a_user_a_period_and_a_question_is_read_as_well(tmp_path: Path) -> None:
    file = tmp_path / "shown.jsonl"
    question = {"period": 1, "question": 2, "needs": [[0]], "buffered": [], "lines": [0], "buffer_words": 3}
    texts = {"messages": ["m"], "lines": ["l"], "asked": [question | {"right": True}]}
    file.write_text(json.dumps({"user": "ann", "policy": "p", "memory_score": 0.5, **texts}), encoding="utf-8")
    [read] = read_retrievals(file)
    assert (read.group, read.task) == ("ann", "ann")
    assert list(read.retrievals()) == [(Retrieval("1.2", (("m",),), frozenset(), ("l",), 3), True)]
