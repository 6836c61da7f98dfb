"""Checks in other words, as the sealed test asks them besides.

Invariants:

1. They are asked only where the cast says so, and then each check once.
2. They are asked on the same fork as the others: whatever else is said and answered stays the same.
3. They are a score of their own.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import toy
from mnemotune import env
from mnemotune.data import Scenario
from mnemotune.data.task import Check
from mnemotune.env import Evaluator, Protocol, Summary
from mnemotune.env.cost import turn_cost
from mnemotune.env.dialogue.compat import DEFECTS
from mnemotune.env.dialogue.protocol import answer_prompt
from mnemotune.env.dialogue.track import DialogueTrack
from mnemotune.env.episode import Episode, StageRecord
from mnemotune.env.track import most_calls, reworded_calls, reworded_role
from mnemotune.policies import MemoryPolicy, load_policy, presets
from mnemotune.policies.lm import LanguageModelError, Request, Spend
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates, render
from staged import evaluator, rollout

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario

TEXTS = Templates.bundled()
NATIVE, RAG = load_policy("native"), load_policy("rag")
OTHER_WORDS = TEXTS.answer_reworded.split("{query}")[1].split("{choices}")[0]


def in_other_words(request: Request) -> bool:
    return OTHER_WORDS in request.messages[-1].content


def plain(stages: Sequence[StageRecord]) -> list[StageRecord]:
    return [replace(stage, reworded=()) for stage in stages]


# Asking


@pytest.mark.parametrize("preset", presets())
async def test_without_a_word_of_the_cast_nothing_is_asked_in_other_words_invariant_1(
    preset: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    episode = await rollout(make_scenario(), load_policy(preset), make_cast(model))
    assert not any(map(in_other_words, model.requests))
    assert [stage.reworded for stage in episode.stages] == [()] * 3


@pytest.mark.parametrize("preset", presets())
async def test_every_question_is_put_once_in_other_words_at_the_end_of_every_period_invariant_1(
    preset: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(), make_model()
    episode = await rollout(scenario, load_policy(preset), replace(make_cast(model), reworded=True))
    prompts = {t: [answer_prompt(t, q) for q in scenario.qas] for t in (TEXTS.answer, TEXTS.answer_reworded)}
    assert Counter(model.prompts("answer")) == Counter([text for texts in prompts.values() for text in texts] * 3)
    for stage in episode.stages:
        assert [mark.check for mark in stage.reworded] == [mark.check for mark in stage.marks]


@pytest.mark.parametrize("preset", presets())
async def test_whatever_else_is_said_and_answered_stays_the_same_invariant_2(
    preset: str, make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario = make_scenario(sessions=(4, 2, 1), changes={1: {"pet_0": "mid"}})
    model, rewording = make_model(), make_model()
    without = await rollout(scenario, load_policy(preset), make_cast(model))
    episode = await rollout(scenario, load_policy(preset), replace(make_cast(rewording), reworded=True))
    assert plain(episode.stages) == list(without.stages)
    assert all(stage.reworded for stage in episode.stages)
    rest = [request for request in rewording.requests if not in_other_words(request)]
    assert Counter(rest) == Counter(model.requests)
    assert len(rewording.requests) == len(rest) + 3 * len(scenario.qas)


async def test_a_question_in_other_words_sees_the_memory_of_the_same_moment_invariant_2(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, model = make_scenario(sessions=(4, 2), changes={1: {"pet_0": "mid"}}), make_model()
    await rollout(scenario, load_policy("awi"), replace(make_cast(model), reworded=True))
    seen = [Counter(r.messages[:-1] for r in model.asked("answer") if in_other_words(r) == other) for other in (0, 1)]
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2, "one for each period"


async def test_a_question_that_fails_in_other_words_fails_the_episode_and_no_other(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    def answer(request: Request) -> str:
        if in_other_words(request) and "ben asks" in request.messages[-1].content:
            raise LanguageModelError("the line is dead")
        return '{"answer": 1}'

    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    result = await evaluator(replace(make_cast(make_model(answer=answer)), reworded=True)).evaluate(NATIVE, lives)
    assert result.failures == {"ben": "the line is dead"}
    assert [score.group for score in result.reworded] == [score.group for score in result.groups] == ["ann"]


async def test_an_episode_takes_no_more_calls_than_are_put_aside_for_it_with_other_words(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    scenario, track = make_scenario(sessions=(4, 2)), DialogueTrack(Protocol())
    assert reworded_calls(track, scenario) == len(scenario.checks) == 2 * len(scenario.qas)
    for policy in map(load_policy, presets()):
        model = make_model()
        await rollout(scenario, policy, replace(make_cast(model), reworded=True))
        most = most_calls(track, [scenario], [policy], reworded=True)
        assert len(model.requests) <= most == most_calls(track, [scenario], [policy]) + len(scenario.checks)


# Scores


def wrong_in_other_words(request: Request) -> str:
    return '{"answer": 4}' if in_other_words(request) else '{"answer": 1}'


async def test_answers_in_other_words_are_a_score_of_their_own_invariant_3(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """Choice 1 is right throughout; 4 never is."""
    cast = make_cast(make_model(answer=wrong_in_other_words))
    without = await evaluator(cast).evaluate(NATIVE, [make_scenario()])
    result = await evaluator(replace(cast, reworded=True)).evaluate(NATIVE, [make_scenario()])
    assert result.groups == without.groups
    assert without.reworded == ()
    assert result.memory_score.mean == 1.0
    assert [score.memory_score for score in result.reworded] == pytest.approx([-1 / 3])
    assert [[stage.accuracy for stage in score.stages] for score in result.reworded] == [[0.0] * 3]


async def test_a_summary_tells_both_scores_and_reads_back_the_same_invariant_3(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    lives = [make_scenario(user=name) for name in ("ann", "ben")]
    cast = make_cast(make_model(answer=wrong_in_other_words))
    result = Summary.of(await evaluator(replace(cast, reworded=True)).evaluate(NATIVE, lives), name="native")
    assert result.reworded_by_group == pytest.approx({"ann": -1 / 3, "ben": -1 / 3})
    assert result.by_group == {"ann": 1.0, "ben": 1.0}
    assert result.reworded.mean == pytest.approx(-1 / 3)
    values = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert values["reworded"] == pytest.approx(-1 / 3)
    assert Summary.from_json(values) == result


async def test_where_nothing_was_asked_in_other_words_its_score_is_not_known(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    result = Summary.of(await evaluator(make_cast(make_model())).evaluate(NATIVE, [make_scenario()]), name="native")
    assert result.reworded_by_group == {}
    assert math.isnan(result.reworded.mean)
    values = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert (values["reworded"], values["reworded_by_group"]) == (None, {})
    assert Summary.from_json(values).reworded_by_group == {}


async def test_guesses_leave_the_answers_in_other_words_as_they_are(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    """With AMemGym's defects, what cannot be read becomes a guess, after the episode and over all users."""
    lives: list[Scenario] = [make_scenario(user=name, questions=4) for name in ("ann", "ben")]

    def unreadable(request: Request) -> str:
        return '{"answer": 4}' if in_other_words(request) else "dunno"

    cast = make_cast(make_model(answer=unreadable), protocol=Protocol(compat=frozenset(DEFECTS)))
    without = await evaluator(cast).evaluate(NATIVE, lives)
    result = await evaluator(replace(cast, reworded=True)).evaluate(NATIVE, lives)
    assert result.groups == without.groups
    for episode in result.episodes:
        for stage in episode.stages:
            assert len(stage.reworded) == 4
            assert {mark.raw for mark in stage.reworded} == {'{"answer": 4}'}
            assert {mark.score for mark in stage.reworded} == {0.0}


# A track that reads


class Reworded(toy.LettersTrack):
    """Asks in other words for what the first letter says alone."""

    def reworded(self, task: toy.Letters, check: Check) -> str | None:
        if check.needs[0] != toy.THINGS[0]:
            return None
        choices = "\n".join(f"{i}: In the {place}." for i, place in enumerate(toy.PLACES, 1))
        return render(TEXTS.answer_reworded, query=check.text, choices=choices)


async def play(track: Any, task: toy.Letters, **changes: Any) -> Episode:
    model = EmbeddedModel()
    playing = track.begin(task, RAG, env.Cast(model, model, LexicalEmbedder(), **changes))
    try:
        episode: Episode = await playing.run()
    finally:
        await playing.aclose()
    return episode


async def test_a_track_that_reads_has_no_other_words_of_itself() -> None:
    track = toy.LettersTrack(TEXTS)
    (task, *_) = track.load("letters:1:3")
    assert reworded_calls(track, task) == 0
    plainly, reworded = await play(track, task), await play(track, task, reworded=True)
    assert plainly.stages == reworded.stages
    model = EmbeddedModel()
    cast = env.Cast(model, model, LexicalEmbedder(), reworded=True)
    evaluation = await Evaluator(track, cast).evaluate(NATIVE, [task])
    assert Summary.of(evaluation, name="native").reworded_by_group == {}


async def test_a_track_that_reads_may_bring_other_words_for_some_checks_invariants_1_2() -> None:
    track = Reworded(TEXTS)
    (task, *_) = track.load("letters:1:3")
    without, episode = await play(track, task), await play(track, task, reworded=True)
    assert plain(episode.stages) == list(without.stages)
    assert [[mark.check for mark in stage.reworded] for stage in episode.stages] == [
        [check] for check in ("0.lantern", "1.lantern", "2.lantern")
    ]
    assert reworded_calls(track, task) == 3
    assert episode.ledger.total.calls == without.ledger.total.calls + 3


async def test_where_an_answer_is_a_turn_other_words_are_none() -> None:
    track = Reworded(TEXTS)
    (task, *_) = track.load("letters:1:3")
    without, episode = await play(track, task), await play(track, task, reworded=True)
    assert turn_cost(episode.ledger, "answer") == turn_cost(without.ledger, "answer") is not None
    assert episode.uses["answer"] == without.uses["answer"]
    assert episode.ledger.by_role["probe"].calls == without.ledger.by_role.get("probe", Spend()).calls + 3
    assert reworded_role(track.turn) == "probe"
    assert reworded_role(DialogueTrack(Protocol()).turn) == "answer"


async def test_its_scores_in_other_words_are_of_the_checks_that_have_some_invariant_3() -> None:
    track, model = Reworded(TEXTS), EmbeddedModel()
    cast = env.Cast(model, model, LexicalEmbedder(), reworded=True)
    result = await Evaluator(track, cast).evaluate(NATIVE, track.load("letters:1:3"))
    assert [score.group for score in result.reworded] == [score.group for score in result.groups]
    assert {stage.diagnosis.checks for score in result.reworded for stage in score.stages} == {2}


def test_a_memory_that_asks_to_bring_something_back_asks_for_each_question_in_other_words(
    make_scenario: MakeScenario,
) -> None:
    scenario, track = make_scenario(sessions=(4, 2)), DialogueTrack(Protocol())
    values = load_policy("rag").model_dump() | {"backend": "mem0ai-kuzu"}
    asked, again = (
        most_calls(track, [scenario], [MemoryPolicy.model_validate(values)], reworded=other) for other in (False, True)
    )
    assert again == asked + 2 * len(scenario.checks)
