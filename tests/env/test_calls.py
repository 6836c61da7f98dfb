"""The calls behind an episode, where they are recorded.

Invariants:

1. A call is kept with what it was for, once.
2. Recording changes nothing that a model is asked, and nothing that is scored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mnemotune.env import Cast
from mnemotune.env.calls import Call, Recorder, recorded
from mnemotune.env.concurrency import side_by_side
from mnemotune.env.episode import Episode, RecordError
from mnemotune.env.failed_checks import CALLS, failed_checks, read_calls, write_calls
from mnemotune.env.runner import Here
from mnemotune.policies import load_policy
from mnemotune.policies.lm import LanguageModelError, Message, Request, ToolCall, Usage
from mnemotune.policies.lm.base import Tool
from mnemotune.policies.prompts import Templates
from staged import rollout
from toy import LettersTrack

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import MakeCast, MakeModel, MakeScenario

ASKED = Request((Message("user", "Where do I live?"),), role="answer", tools=(Tool("search", "Searches.", "{}"),))


def roles(calls: tuple[Call, ...]) -> list[str]:
    return [call.role for call in calls]


# Recording


async def test_an_answered_call_is_recorded_with_what_was_sent_and_when(make_model: MakeModel) -> None:
    moments = iter([1000.0, 1002.5])
    model = make_model(answer="In Rome.", usage=Usage(12, 3))
    with recorded() as calls:
        await Recorder(model, clock=lambda: next(moments)).complete(ASKED)
    reply = Message("assistant", "In Rome.")
    assert calls == [Call(model.name, "answer", ASKED.messages, ("search",), reply, Usage(12, 3), 1000.0, 2.5)]
    assert calls[0].as_json() == {
        "model": model.name,
        "role": "answer",
        "tools": ["search"],
        "reply": {"role": "assistant", "content": "In Rome."},
        "input_tokens": 12,
        "output_tokens": 3,
        "cached": False,
        "began": 1000.0,
        "seconds": 2.5,
    }
    assert model.requests[0] is ASKED, "the model is asked what it would be asked anyway"


async def test_a_call_that_nobody_listens_to_or_that_fails_is_not_recorded(make_model: MakeModel) -> None:
    def fail(request: Request) -> str:
        raise LanguageModelError("the line is dead")

    await Recorder(make_model()).complete(replace(ASKED, role="reply"))
    with recorded() as calls, pytest.raises(LanguageModelError):
        await Recorder(make_model(answer=fail)).complete(ASKED)
    assert calls == []


async def test_questions_side_by_side_have_their_own_calls_and_tasks_without_a_list_those_of_their_maker(
    make_model: MakeModel,
) -> None:
    model = Recorder(make_model(answer=lambda request: request.messages[0].content))

    async def ask(text: str) -> list[str]:
        with recorded() as calls:
            await side_by_side(model.complete(replace(ASKED, messages=(Message("user", text),))) for _ in range(2))
            await asyncio.sleep(0)
        return [call.reply.content for call in calls]

    with recorded() as rest:
        assert await side_by_side(map(ask, "ab")) == [["a", "a"], ["b", "b"]]
        await model.complete(ASKED)
    assert len(rest) == 1


# Episodes


async def test_in_a_talk_each_message_each_write_and_each_answer_has_its_calls_invariant_1(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    model = make_model()
    cast = replace(make_cast(model), recorded=frozenset(["ann"]), reworded=True)
    episode = await rollout(make_scenario(), load_policy("awi"), cast)
    events = [event for stage in episode.stages for event in stage.events]
    said = [event for event in events if event.kind == "say"]
    assert {tuple(roles(event.calls)) for event in said} == {("reply",), ("user", "reply")}
    for event in said:
        *asked, replied = event.calls
        assert replied.reply == event.seen[1]
        assert replied.messages[-1] == event.seen[0]
        assert [call.reply.content.strip() for call in asked] in ([], [event.seen[0].content])
    written = [event for event in events if event.write is not None]
    assert written
    for event in written:
        assert [call.reply.content for call in event.calls] == [*event.write.raw]  # type: ignore[union-attr]
    for stage in episode.stages:
        assert {tuple(roles(mark.calls)) for mark in stage.marks} == {("answer", "probe")}
        assert [mark.calls[0].reply.content for mark in stage.marks] == [mark.raw for mark in stage.marks]
        assert {tuple(roles(mark.calls)) for mark in stage.reworded} == {("answer",)}
    marks = [mark for stage in episode.stages for mark in (*stage.marks, *stage.reworded)]
    kept = Counter(call.messages for part in (*events, *marks) for call in part.calls)  # type: ignore[attr-defined]
    assert kept == Counter(request.messages for request in model.requests)


async def test_recording_changes_nothing_that_is_asked_or_told_invariant_2(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    (without, plain), (model, episode) = [
        (model, await rollout(make_scenario(), load_policy("awe"), replace(make_cast(model), recorded=groups)))
        for model, groups in ((make_model(), frozenset[str]()), (make_model(), frozenset(["ann"])))
    ]
    assert model.requests == without.requests
    assert episode.as_json() == plain.as_json()
    assert plain.stages != episode.stages, "calls are told apart from none"


async def played(cast: Cast, *, recorded: str) -> list[Episode]:
    """Return the episodes of two writers, each of two tasks, one of whom is recorded."""
    track = LettersTrack(Templates.bundled())
    here = Here(track, replace(cast, recorded=frozenset([recorded])))
    return await here.run(load_policy("awe"), track.load("letters:2:2"))


async def test_where_memory_reads_only_the_groups_that_are_asked_for_are_recorded_invariant_1(
    make_model: MakeModel, make_cast: MakeCast
) -> None:
    *others, last = await played(make_cast(make_model(answer="dunno")), recorded="writer-1")
    assert not [mark.calls for episode in others[:2] for stage in episode.stages for mark in stage.marks if mark.calls]
    for stage in last.stages:
        assert [roles(mark.calls) for mark in stage.marks] == [["answer"]] * len(stage.marks)
        assert all(set(roles(event.calls)) == {"write"} for event in stage.events if event.write is not None)


# On disk


async def test_calls_behind_failures_are_read_as_they_were_written(
    make_model: MakeModel, make_cast: MakeCast, tmp_path: Path
) -> None:
    episodes = await played(make_cast(make_model(answer="dunno")), recorded="writer-0")
    track = LettersTrack(Templates.bundled())
    tasks = track.load("letters:2:2")
    (failure,) = [f for f in failed_checks(tasks, episodes, track) if (f.task, f.check) == ("letters-1", "1.lantern")]
    write_calls(tmp_path, [failure], episodes)
    calls = read_calls(tmp_path)
    assert {call["task"] for call in calls} == {"letters-1"}
    assert {(call["stage"], call["check"]) for call in calls if "check" in call} == {(1, "1.lantern")}
    events = [stage.events for stage in episodes[1].stages]
    sent = [(s, e, call) for s, stage in enumerate(events) for e, event in enumerate(stage) for call in event.calls]
    read = [call for call in calls if "event" in call]
    assert [(call["stage"], call["event"]) for call in read] == [(s, e) for s, e, _ in sent]
    assert [call["messages"] for call in read] == [[m.as_json() for m in call.messages] for *_, call in sent]
    assert [call["reply"] for call in read] == [call.reply.as_json() for *_, call in sent]
    before = (tmp_path / CALLS).read_bytes()
    write_calls(tmp_path, [failure], episodes)
    assert (tmp_path / CALLS).read_bytes() == before


def test_there_are_no_calls_without_a_file_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    assert read_calls(tmp_path) == []
    (tmp_path / CALLS).write_bytes(b"\x1f\x8b\x08 cut")
    with pytest.raises(RecordError, match=r"calls\.json\.gz: is damaged .* delete it, and traces go without calls"):
        read_calls(tmp_path)


def test_tool_calls_of_a_reply_are_told_in_openais_form() -> None:
    reply = Message("assistant", "", (ToolCall("c1", "search", '{"query": "Rome"}'),))
    call = Call("m", "reply", (), (), reply, Usage(1, 1), 0.0, 0.0)
    assert call.as_json()["reply"]["tool_calls"][0]["function"]["name"] == "search"
