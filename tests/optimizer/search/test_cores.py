"""Evaluations on all cores.

Invariant: the result is that of one process, whatever the number of processes; only the time differs.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mnemotune.data.dialogue.load import load_scenarios
from mnemotune.env import Cast, DialogueTrack, Evaluator, Protocol, Summary
from mnemotune.env.episode import RecordError
from mnemotune.optimizer.search.cores import TASKS_A_PROCESS, evaluate_on, processes_for
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm.chain import NO_CALLS
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder

MODEL = EmbeddedModel()
CAST = Cast(MODEL, MODEL, LexicalEmbedder())
TRACK = DialogueTrack()


def test_users_dealt_to_processes_score_as_in_one() -> None:
    users = load_scenarios("small")[:3]
    heard: list[str] = []
    awi = load_policy("awi")
    one = asyncio.run(Evaluator(TRACK, CAST).evaluate(awi, users))
    (two,) = evaluate_on(2, TRACK, CAST, {"a": awi}, users, done=lambda episode: heard.append(episode.task)).values()
    timeless = [replace(Summary.of(found, name="awi"), wall_s=0.0, critical_path=NO_CALLS) for found in (one, two)]
    assert timeless[0] == timeless[1]
    assert one.critical_path.calls == two.critical_path.calls
    assert sorted(heard) == sorted(user.id for user in users)


def test_a_problem_in_a_process_is_the_problem_of_the_evaluation() -> None:
    with pytest.raises(RecordError):
        evaluate_on(2, TRACK, CAST, {"awi": load_policy("awi")}, load_scenarios("small")[:2], replays={})


def test_a_process_of_its_own_is_for_several_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert processes_for(TRACK, 1, per_core=True) == 1
    assert processes_for(TRACK, 2 * TASKS_A_PROCESS, per_core=True) == 2
    assert processes_for(TRACK, 1000, per_core=True) == 8


def test_where_something_else_is_asked_or_guesses_go_on_there_is_one_process() -> None:
    assert processes_for(TRACK, 1000, per_core=False) == 1
    guessing = DialogueTrack(Protocol(compat=frozenset({"guessed_answers"})))
    assert processes_for(guessing, 1000, per_core=True) == 1
