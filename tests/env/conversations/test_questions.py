"""Questions that a model makes are kept where their evidence answers them and nothing does not; else it is told why."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mnemotune.data.conversations.task import ConversationTask, Session, Utterance
from mnemotune.env.conversations.questions import (
    CALLS,
    TRIES,
    MadeQuestions,
    as_lines,
    excerpts_of,
    make_questions,
    most_calls,
)
from mnemotune.policies.lm import EndpointDown, Refused
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.prompts import Templates
from talks import Maker, on_the_first_thing

Make = Callable[[str], str]
THINGS = ("canoe", "violin", "ladder")


def history(thing: str, sessions: int = 2) -> ConversationTask:
    said = [f"My {thing} stands in room {number}." for number in range(sessions)]
    opening, time = "Tell me about glaciers.", "2026-03-01T10:00"
    talks = [
        Session(f"s{number}", (Utterance(f"{number}.0", opening), Utterance(f"{number}.1", text, time=time)))
        for number, text in enumerate(said)
    ]
    return ConversationTask(thing, thing, tuple(talks), ())


async def asked(
    make: Callable[[str], str] = on_the_first_thing, *, wanted: int = 3, sessions: int = 1
) -> MadeQuestions:
    tasks = [history(thing, sessions) for thing in THINGS]
    return await make_questions(tasks, wanted, Maker(make), templates=Templates.bundled())


async def test_a_question_that_its_evidence_answers_and_nothing_does_is_kept_with_its_evidence() -> None:
    questions = await asked()
    assert (questions.count, questions.dropped) == (3, ())
    assert as_lines(questions)[0] == {
        "id": "made 0.0",
        "user": "canoe",
        "question": "Where is my canoe?",
        "answer": "room 0",
        "evidence": ["0.1"],
        "kind": "one message",
    }
    assert {q.stage for each in questions.kept.values() for q in each} == {0}


def replied(**values: Any) -> Make:
    return lambda excerpt: json.dumps(json.loads(on_the_first_thing(excerpt)) | values)


async def test_the_embedded_model_asks_how_a_sentence_goes_on() -> None:
    questions = await make_questions([history("canoe", 1)], 1, EmbeddedModel(), templates=Templates.bundled())
    assert [(line["question"], line["answer"]) for line in as_lines(questions)] == [
        ('How does it go on, what I said: "My canoe stands in ..."?', "room 0")
    ]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (replied(answer="room 9"), "its evidence does not support it: shown that alone, the model answers"),
        (replied(evidence=[1]), "its evidence does not support it"),
        (replied(evidence=[3]), "the evidence names no message"),
        (replied(evidence=[]), "the evidence names no message"),
        (replied(evidence="2"), "the evidence names no message"),
        (replied(evidence=[2.0]), "the evidence names no message"),
        (replied(question="Is my canoe in Room 0?"), "it gives its own answer"),
        (replied(question=" "), "the reply has no question"),
        (replied(answer=None), "the reply has no answer"),
        (lambda _: "Where is it?", "the reply holds no JSON object"),
        (replied(answer="not mentioned", question="What is said of cats?", evidence=[1]), "it needs no memory"),
    ],
)
async def test_any_other_is_dropped_with_the_reason(make: Make, why: str) -> None:
    questions = await asked(make, wanted=1)
    assert (questions.count, {each.group for each in questions.dropped}) == (0, {*THINGS})
    assert why in questions.dropped[0].reason


async def test_a_question_is_asked_once_and_another_part_is_tried_in_its_place() -> None:
    questions = await asked(wanted=4, sessions=2)
    assert questions.count == 3
    assert len({q.text for each in questions.kept.values() for q in each}) == 3
    assert {each.reason for each in questions.dropped} == {"it is asked already"}


def test_parts_are_taken_of_all_in_turn_and_always_the_same() -> None:
    tasks = [history("canoe", 3), history("violin", 1), history("ladder", 2)]
    groups = [excerpt.task.group for excerpt in excerpts_of(tasks)]
    assert groups == ["canoe", "violin", "ladder", "canoe", "ladder", "canoe"]
    assert excerpts_of(tasks) == excerpts_of(tasks)
    long = ConversationTask("x", "x", (Session("s", tuple(Utterance(f"{n}", "word " * 500) for n in range(5))),), ())
    assert [len(excerpt.utterances) for excerpt in excerpts_of([long])] == [1] * 5


async def test_it_takes_no_more_calls_than_are_said_and_a_call_that_fails_costs_one_question() -> None:
    maker = Maker(replied(answer="room 9"))
    await make_questions([history(t, 9) for t in THINGS], 2, maker, templates=Templates.bundled())
    assert 0 < maker.calls <= most_calls(2) == 2 * TRIES * CALLS

    def refuse(_: str) -> str:
        raise Refused("too long")

    assert [each.reason for each in (await asked(refuse, wanted=1)).dropped] == ["too long"] * 3

    def down(_: str) -> str:
        raise EndpointDown("gone")

    with pytest.raises(EndpointDown):
        await asked(down)
