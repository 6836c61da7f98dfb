"""An episode as plain JSON: all that was heard, written, answered and found, and nothing made up.

Invariants:

1. An episode is one line of strict JSON, which tells what the record tells.
2. An unscored mark's score is null.
3. A write's ``removed`` and ``added`` lead from the memory before to the memory after.
4. What memory heard is read back as it was; what cannot be read is named by its line.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemotune.data import Scenario
from mnemotune.env import Episode
from mnemotune.env.dialogue.record import Answer, PeriodRecord, Probe, period_of, record_period
from mnemotune.env.episode import (
    HEARD,
    Event,
    EventKind,
    Mark,
    RecordError,
    Revision,
    StageRecord,
    places_beyond,
    read_heard,
    write_episodes,
)
from mnemotune.policies import load_policy, presets
from mnemotune.policies.lm import LanguageModelError, Ledger, Message, Request, Usage
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.memory import MemoryEvent
from staged import rollout

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario

AWI = load_policy("awi")
RAG = load_policy("rag")


def written(episode: Episode) -> str:
    return json.dumps(episode.as_json(), ensure_ascii=False, allow_nan=False)


def read(episode: Episode) -> Any:
    return json.loads(written(episode))


def write_event(**parts: Any) -> Any:
    nothing: dict[str, Any] = {"evicted": (), "before": (), "after": ()}
    event = Event(0, "write", write=MemoryEvent(**nothing | parts))
    return read(Episode("ann", "key", (StageRecord((event,)),)))["stages"][0]["events"][0]["write"]


def writes_told(told: Any) -> list[Any]:
    return [event["write"] for event in told["events"] if event["kind"] == "write"]


# By hand


def test_an_episode_by_hand() -> None:
    ledger = Ledger()
    ledger.add("reply", Usage(7, 3, cost_usd=0.5, cut=True, response_format="text"))
    puppy = (Message("user", "I got a puppy."), Message("assistant", "Nice!"))
    write = MemoryEvent(
        evicted=puppy,
        before=("pet: none", "flat: small"),
        after=("flat: small", "pet: puppy"),
        raw=('{"pet": "puppy"}',),
    )
    stage = StageRecord(
        events=(
            Event(0, "say", puppy),
            Event(0, "write", write=write),
            Event(1, "document", (Message("user", "A chapter."),)),
            Event(1, "read", shown_tokens=12),
        ),
        marks=(
            Mark("0.0", '{"answer": 2}', 0.0, {"pet@0": True, "flat@0": None}, shown={"pet@0": True}),
            Mark("0.1", "dunno", 0.0, readable=False),
        ),
        recalled={"job@0": False},
        revisions=(Revision("write", "Note all.", ("shorter",), "raw"),),
    )
    assert read(Episode("ann", "k1", (stage,), ledger)) == {
        "task": "ann",
        "policy": "k1",
        "failure": None,
        "refused": False,
        "stages": [
            {
                "events": [
                    {
                        "step": 0,
                        "kind": "say",
                        "seen": [
                            {"role": "user", "content": "I got a puppy."},
                            {"role": "assistant", "content": "Nice!"},
                        ],
                    },
                    {
                        "step": 0,
                        "kind": "write",
                        "write": {
                            "evicted": [
                                {"role": "user", "content": "I got a puppy."},
                                {"role": "assistant", "content": "Nice!"},
                            ],
                            "removed": ["pet: none"],
                            "added": ["pet: puppy"],
                            "raw": ['{"pet": "puppy"}'],
                            "error": None,
                        },
                    },
                    {"step": 1, "kind": "document", "seen": [{"role": "user", "content": "A chapter."}]},
                    {"step": 1, "kind": "read", "shown_tokens": 12},
                ],
                "marks": [
                    {
                        "check": "0.0",
                        "raw": '{"answer": 2}',
                        "score": 0.0,
                        "recalled": {"pet@0": True, "flat@0": None},
                        "readable": True,
                        "shown": {"pet@0": True},
                    },
                    {"check": "0.1", "raw": "dunno", "score": 0.0, "recalled": {}, "readable": False, "shown": {}},
                ],
                "recalled": {"job@0": False},
                "revisions": [
                    {"target": "write", "text": "Note all.", "changes": ["shorter"], "raw": "raw", "error": None}
                ],
                "reworded": [],
            }
        ],
        "spend": {
            "reply": {
                "calls": 1,
                "cached": 0,
                "input_tokens": 7,
                "output_tokens": 3,
                "cost_usd": 0.5,
                "cut": 1,
                "response_formats": {"text": 1},
            }
        },
        "context": {},
    }


def test_an_episode_of_nothing_is_told_too() -> None:
    assert read(Episode("ann", "key", (), failure="the endpoint is gone")) == {
        "task": "ann",
        "policy": "key",
        "failure": "the endpoint is gone",
        "refused": False,
        "stages": [],
        "spend": {},
        "context": {},
    }


def test_an_unscored_mark_is_null_and_not_nan() -> None:
    told = read(Episode("ann", "key", (StageRecord(marks=(Mark("0.0", "2", math.nan),)),)))
    assert told["stages"][0]["marks"][0]["score"] is None


def test_a_write_that_came_to_nothing_tells_why_and_what_the_model_said() -> None:
    told = write_event(before=("a",), after=("a",), raw=("Sorry.",), error="the reply holds no JSON object")
    assert told == {
        "evicted": [],
        "removed": [],
        "added": [],
        "raw": ["Sorry."],
        "error": "the reply holds no JSON object",
    }


def test_a_record_cannot_be_changed() -> None:
    episode = Episode("ann", "key", ())
    with pytest.raises(FrozenInstanceError):
        episode.task = "ben"  # type: ignore[misc]


def test_memory_hears_everything_but_its_own_writes_and_readings() -> None:
    kinds: list[EventKind] = ["say", "write", "act", "observe", "read", "document"]
    events = tuple(Event(0, kind, (Message("user", kind),)) for kind in kinds)
    assert [seen[0].content for seen in StageRecord(events).heard] == ["say", "act", "observe", "document"]
    assert {"say", "act", "observe", "document"} == HEARD


def test_the_writes_of_a_stage_are_those_of_its_events_in_their_order() -> None:
    first, second = (MemoryEvent(evicted=(), before=(), after=(text,)) for text in "ab")
    events = (Event(0, "write", write=first), Event(0, "say"), Event(1, "write", write=second))
    assert StageRecord(events).writes == (first, second)


# A period of the dialogue


def test_a_period_tells_its_answers_and_its_probes_beside_what_every_stage_tells(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(sessions=(1, 1), questions=2, changes={1: {"flat_0": "high"}})
    answers = (Answer("2", 1, None, math.nan), Answer('{"answer": 3}', 2, 0, 0.0, guessed=True))
    probes = (
        Probe("dunno", None, {"pet_0": False, "flat_0": False}),
        Probe("{}", {}, {"pet_1": True, "flat_1": False}),
    )
    record = record_period(scenario, 1, answers=answers, probes=probes)
    assert period_of(Episode("ann", "key", (record, record)), 1) is record
    (told,) = read(Episode("ann", "key", (record,)))["stages"]
    assert told == {
        "events": [],
        "marks": [
            {
                "check": "1.0",
                "raw": "2",
                "score": None,
                "recalled": {"pet_0@0": False, "flat_0@1": False},
                "readable": True,
                "shown": {},
            },
            {
                "check": "1.1",
                "raw": '{"answer": 3}',
                "score": 0.0,
                "recalled": {"pet_1@0": True, "flat_1@0": False},
                "readable": False,
                "shown": {},
            },
        ],
        "recalled": {},
        "revisions": [],
        "reworded": [],
        "answers": [
            {"raw": "2", "choice": 1, "gold": None, "score": None, "guessed": False},
            {"raw": '{"answer": 3}', "choice": 2, "gold": 0, "score": 0.0, "guessed": True},
        ],
        "probes": [
            {"raw": "dunno", "values": None, "right": {"pet_0": False, "flat_0": False}},
            {"raw": "{}", "values": {}, "right": {"pet_1": True, "flat_1": False}},
        ],
    }


def test_without_probes_nobody_asked_what_is_known(make_scenario: MakeScenario) -> None:
    record = record_period(make_scenario(questions=1), 0, answers=[Answer("1", 0, 0, 1.0)])
    assert [mark.recalled for mark in record.marks] == [{"pet_0@0": None, "flat_0@0": None}]


def test_a_period_of_which_only_the_talk_is_known_has_no_answers() -> None:
    with pytest.raises(RecordError, match="user ann, period 1: no answers are recorded"):
        period_of(Episode("ann", "", (PeriodRecord(), StageRecord())), 1)


# Writes


@pytest.mark.parametrize(
    ("before", "after", "removed", "added"),
    [
        ((), ("a", "b"), [], ["a", "b"]),
        (("a", "b"), (), ["a", "b"], []),
        (("a", "b"), ("b", "a"), [], []),
        (("a", "b", "c"), ("b", "d"), ["a", "c"], ["d"]),
        (("user: ok",), ("user: ok", "user: ok"), [], ["user: ok"]),
        (("a", "b", "a"), ("b", "a"), ["a"], []),
    ],
)
def test_a_write_is_told_by_the_lines_it_removed_and_added(
    before: tuple[str, ...], after: tuple[str, ...], removed: list[str], added: list[str]
) -> None:
    told = write_event(before=before, after=after)
    assert (told["removed"], told["added"]) == (removed, added)


lines = st.lists(st.sampled_from("abcde"), max_size=5).map(tuple)


@given(before=lines, after=lines)
@settings(deadline=None)
def test_removed_and_added_lead_from_before_to_after(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    told = write_event(before=before, after=after)
    assert Counter(before) - Counter(told["removed"]) + Counter(told["added"]) == Counter(after)


@given(before=lines, new=lines)
def test_what_comes_behind_is_what_was_added(before: tuple[str, ...], new: tuple[str, ...]) -> None:
    after = before + new
    assert places_beyond(after, before) == [*range(len(before), len(after))]
    assert places_beyond(before, after) == []


async def test_a_message_kept_verbatim_is_told_however_often_it_was_said(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    episode = await rollout(make_scenario(sessions=(5,)), RAG, make_cast(make_model(reply="Fine.")))
    added = [write["added"] for write in writes_told(read(episode)["stages"][0])]
    assert [lines[1:] for lines in added] == [["assistant: Fine."]] * 3


# Episodes as they run


@pytest.mark.parametrize("preset", presets())
async def test_a_line_tells_all_that_the_episode_does(
    preset: str, generated: list[Scenario], make_cast: MakeCast
) -> None:
    policy, life = load_policy(preset), generated[0].model_copy(update={"periods": generated[0].periods[:2]})
    episode = await rollout(life, policy, make_cast(EmbeddedModel()))
    told = read(episode)
    assert (told["task"], told["policy"], told["failure"]) == (life.id, policy.key, None)
    assert len(told["stages"]) == len(episode.stages) == 2
    for p, line in enumerate(told["stages"]):
        period = period_of(episode, p)
        assert [
            [(message["role"], message["content"]) for message in event["seen"]]
            for event in line["events"]
            if event["kind"] == "say"
        ] == [[(message.role, message.content) for message in seen] for seen in period.heard]
        assert [
            ([(message["role"], message["content"]) for message in write["evicted"]], write["raw"], write["error"])
            for write in writes_told(line)
        ] == [([(m.role, m.content) for m in write.evicted], list(write.raw), write.error) for write in period.writes]
        assert [(m["check"], m["raw"], m["score"], m["recalled"], m["readable"]) for m in line["marks"]] == [
            (m.check, m.raw, m.score, m.recalled, m.readable) for m in period.marks
        ]
        assert [(a["raw"], a["choice"], a["gold"], a["score"]) for a in line["answers"]] == [
            (a.raw, a.choice, a.gold, a.score) for a in period.answers
        ]
        assert [(p["raw"], p["values"], p["right"]) for p in line["probes"]] == [
            (p.raw, p.values, p.right) for p in period.probes
        ]
    assert Ledger.from_json(told["spend"]) == episode.ledger


async def test_a_profile_can_be_followed_from_write_to_write(generated: list[Scenario], make_cast: MakeCast) -> None:
    """What writes removed and added, in their order, leads to the memory at the end of the life."""
    episode = await rollout(generated[0], AWI, make_cast(EmbeddedModel()))
    memory: Counter[str] = Counter()
    for write in (write for stage in read(episode)["stages"] for write in writes_told(stage)):
        assert memory >= Counter(write["removed"])
        memory = memory - Counter(write["removed"]) + Counter(write["added"])
    last = [write for stage in episode.stages for write in stage.writes][-1]
    assert memory == Counter(last.after)
    assert len(memory) > 1


def test_users_are_one_line_each_whatever_they_say() -> None:
    texts = ["two\nlines", 'quotes " and \\', "Grüße, 猫", "\x00\x1f", "{braces}"]
    said = tuple(Event(0, "say", (Message("user", text), Message("assistant", text))) for text in texts)
    users = [Episode(name, "key", (StageRecord(said),)) for name in ("ann", "ben\n")]
    file = "".join(written(episode) + "\n" for episode in users)
    assert file.count("\n") == 2
    for line, episode in zip(file.splitlines(), users, strict=True):
        told = json.loads(line)
        assert told["task"] == episode.task
        assert [event["seen"][1]["content"] for event in told["stages"][0]["events"]] == texts


async def test_a_failed_episode_tells_why_and_what_came_before(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    def reply(request: Request) -> str:
        if "in period 1" in request.messages[-1].content:
            raise LanguageModelError("no such model; check OPENAI_BASE_URL")
        return "fine"

    told = read(await rollout(make_scenario(), AWI, make_cast(make_model(reply=reply))))
    assert told["failure"] == "no such model; check OPENAI_BASE_URL"
    assert [len(stage["answers"]) for stage in told["stages"]] == [2]
    assert told["spend"]["reply"]["calls"] == 2


# What was heard


heard_kinds = st.sampled_from(sorted(HEARD))
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
spoken = st.lists(
    st.builds(Message, role=st.sampled_from(["user", "assistant", "system"]), content=texts), min_size=1, max_size=3
)
heard_events = st.builds(Event, st.integers(0, 9), heard_kinds, spoken.map(tuple))
other_events = st.builds(
    Event,
    st.integers(0, 9),
    st.just("write"),
    write=st.builds(MemoryEvent, evicted=st.just(()), before=lines, after=lines),
) | st.builds(Event, st.integers(0, 9), st.just("read"), shown_tokens=st.integers(1, 9))
records = st.builds(
    StageRecord,
    st.lists(heard_events | other_events, max_size=4).map(tuple),
    st.just((Mark("0.0", "raw", math.nan),)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stages=st.lists(st.lists(records, max_size=3).map(tuple), max_size=3))
def test_what_was_heard_is_read_back_and_nothing_else_invariant_4(
    stages: list[tuple[StageRecord, ...]], tmp_path: Path
) -> None:
    episodes = [Episode(f"task {i}", "key", records, Ledger()) for i, records in enumerate(stages)]
    write_episodes(tmp_path / "run", episodes)
    heard = read_heard(tmp_path / "run")
    assert list(heard) == [episode.task for episode in episodes]
    for episode in episodes:
        again = heard[episode.task]
        assert (again.policy_key, again.failure) == ("key", None)
        assert [stage.events for stage in again.stages] == [
            tuple(event for event in stage.events if event.kind in HEARD) for stage in episode.stages
        ]
        assert all(stage.marks == () for stage in again.stages)


@pytest.mark.parametrize("text", ["two\nlines", "a\r\nb", "a\u2028b\u2029", "a\x85\x0b\x0c\x1cb"])
def test_line_breaks_of_every_kind_are_read_back(text: str, tmp_path: Path) -> None:
    stage = StageRecord((Event(0, "say", (Message("user", text), Message("assistant", text))),))
    write_episodes(tmp_path, [Episode("ann", "key", (stage,)), Episode("ben", "key", (stage,))])
    assert [episode.stages for episode in read_heard(tmp_path).values()] == [(stage,)] * 2


def test_a_failed_episode_is_not_replayed(tmp_path: Path) -> None:
    write_episodes(tmp_path, [Episode("ann", "key", (), failure="no"), Episode("ben", "key", ())])
    assert list(read_heard(tmp_path)) == ["ben"]


GOOD = '{"task": "ben", "policy": "k", "failure": null, "stages": []}'


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        '{"task": "ann"}',
        '{"user": "ann", "periods": []}',
        GOOD.replace("[]", "7"),
        GOOD.replace("[]", '[{"events": [{"kind": "say"}]}]'),
        GOOD.replace("[]", '[{"events": [{"step": 0, "kind": "say", "seen": ["x"]}]}]'),
        GOOD.replace("[]", '[{"events": [{"step": 0, "kind": "say", "seen": [{"role": "user"}]}]}]'),
        GOOD.replace("[]", '[{"events": [{"step": "first", "kind": "say", "seen": []}]}]'),
    ],
)
def test_a_line_that_is_no_episode_is_named_invariant_4(line: str, tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_text(f"{GOOD}\n{line}\n", encoding="utf-8")
    with pytest.raises(RecordError, match=r"episodes\.jsonl, line 2: is no episode of this version"):
        read_heard(tmp_path)
