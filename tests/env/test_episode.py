"""An episode as plain JSON: all that was heard, written, answered and found, and nothing made up.

Invariants:

1. An episode is one line of strict JSON, which tells what the record tells.
2. An unscored mark's score is null.
3. A write's ``removed`` and ``added`` lead from the memory before to the memory after.
4. What memory heard is read back as it was; what cannot be read is named by its line.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.data import Scenario
from mnemotune.env import Episode, rollout
from mnemotune.env.episode import Answer, PeriodRecord, Probe, Turn
from mnemotune.policies import MemoryEvent, load_policy, presets
from mnemotune.policies.lm import LanguageModelError, Ledger, Message, Request, Usage
from mnemotune.policies.lm.embedded import EmbeddedModel

if TYPE_CHECKING:
    from .conftest import MakeCast, MakeModel, MakeScenario

AWI = load_policy("awi")
RAG = load_policy("rag")


def written(episode: Episode) -> str:
    return json.dumps(episode.as_json(), ensure_ascii=False, allow_nan=False)


def read(episode: Episode) -> Any:
    return json.loads(written(episode))


def one_period(**parts: Any) -> PeriodRecord:
    nothing: dict[str, Any] = {"sessions": (), "events": (), "answers": (), "probes": ()}
    return PeriodRecord(**nothing | parts)


def one_event(**parts: Any) -> Any:
    nothing: dict[str, Any] = {"evicted": (), "before": (), "after": ()}
    episode = Episode("ann", "key", (one_period(events=(MemoryEvent(**nothing | parts),)),))
    return read(episode)["periods"][0]["events"][0]


# By hand


def test_an_episode_by_hand() -> None:
    ledger = Ledger()
    ledger.add("reply", Usage(7, 3, cost_usd=0.5))
    period = one_period(
        sessions=((Turn("I got a puppy.", "Nice!"), Turn("It never sleeps.", "Oh.")), (Turn("Hi.", "Hi."),)),
        events=(
            MemoryEvent(
                evicted=(Message("user", "I got a puppy."), Message("assistant", "Nice!")),
                before=("pet: none", "flat: small"),
                after=("flat: small", "pet: puppy"),
                raw=('{"pet": "puppy"}',),
            ),
        ),
        answers=(Answer('{"answer": 2}', 1, 0, 0.0), Answer("dunno", None, 1, 0.0), Answer("", 2, 2, 1.0)),
        probes=(Probe('{"pet": "low"}', {"pet": "low"}, {"pet": False, "flat": False}),),
    )
    assert read(Episode("ann", "k1", (period,), ledger)) == {
        "user": "ann",
        "policy": "k1",
        "failure": None,
        "periods": [
            {
                "sessions": [
                    [
                        {"user": "I got a puppy.", "assistant": "Nice!"},
                        {"user": "It never sleeps.", "assistant": "Oh."},
                    ],
                    [{"user": "Hi.", "assistant": "Hi."}],
                ],
                "events": [
                    {
                        "evicted": [
                            {"role": "user", "content": "I got a puppy."},
                            {"role": "assistant", "content": "Nice!"},
                        ],
                        "removed": ["pet: none"],
                        "added": ["pet: puppy"],
                        "raw": ['{"pet": "puppy"}'],
                        "error": None,
                    }
                ],
                "answers": [
                    {"raw": '{"answer": 2}', "choice": 1, "gold": 0, "score": 0.0, "guessed": False},
                    {"raw": "dunno", "choice": None, "gold": 1, "score": 0.0, "guessed": False},
                    {"raw": "", "choice": 2, "gold": 2, "score": 1.0, "guessed": False},
                ],
                "probes": [{"raw": '{"pet": "low"}', "values": {"pet": "low"}, "right": {"pet": False, "flat": False}}],
                "revisions": [],
            }
        ],
        "spend": {"reply": {"calls": 1, "cached": 0, "input_tokens": 7, "output_tokens": 3, "cost_usd": 0.5}},
    }


def test_an_episode_of_nothing_is_told_too() -> None:
    assert read(Episode("ann", "key", (), failure="the endpoint is gone")) == {
        "user": "ann",
        "policy": "key",
        "failure": "the endpoint is gone",
        "periods": [],
        "spend": {},
    }


def test_an_unscored_answer_is_null_and_not_nan() -> None:
    episode = Episode("ann", "key", (one_period(answers=(Answer("2", 1, None, float("nan")),)),))
    assert read(episode)["periods"][0]["answers"] == [
        {"raw": "2", "choice": 1, "gold": None, "score": None, "guessed": False}
    ]


def test_an_unreadable_probe_is_told_from_an_empty_one() -> None:
    probes = (Probe("dunno", None, {"pet": False}), Probe("{}", {}, {"pet": False}))
    told = read(Episode("ann", "key", (one_period(probes=probes),)))["periods"][0]["probes"]
    assert [(probe["raw"], probe["values"]) for probe in told] == [("dunno", None), ("{}", {})]


def test_a_write_that_came_to_nothing_tells_why_and_what_the_model_said() -> None:
    told = one_event(before=("a",), after=("a",), raw=("Sorry.",), error="the reply holds no JSON object")
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
        episode.user = "ben"  # type: ignore[misc]


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
    told = one_event(before=before, after=after)
    assert (told["removed"], told["added"]) == (removed, added)


lines = st.lists(st.sampled_from("abcde"), max_size=5).map(tuple)


@given(before=lines, after=lines)
@settings(deadline=None)
def test_removed_and_added_lead_from_before_to_after(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    told = one_event(before=before, after=after)
    assert Counter(before) - Counter(told["removed"]) + Counter(told["added"]) == Counter(after)


async def test_a_message_kept_verbatim_is_told_however_often_it_was_said(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    episode = await rollout(make_scenario(sessions=(5,)), RAG, make_cast(make_model(reply="Fine.")))
    added = [event["added"] for event in read(episode)["periods"][0]["events"]]
    assert [lines[1:] for lines in added] == [["assistant: Fine."]] * 3


# Episodes as they run


@pytest.mark.parametrize("preset", presets())
async def test_a_line_tells_all_that_the_episode_does(
    preset: str, generated: list[Scenario], make_cast: MakeCast
) -> None:
    policy = load_policy(preset)
    episode = await rollout(generated[0], policy, make_cast(EmbeddedModel()))
    told = read(episode)
    assert (told["user"], told["policy"], told["failure"]) == (generated[0].id, policy.key, None)
    assert len(told["periods"]) == len(episode.periods) == 11
    for period, line in zip(episode.periods, told["periods"], strict=True):
        assert [[(turn["user"], turn["assistant"]) for turn in session] for session in line["sessions"]] == [
            [(turn.user, turn.assistant) for turn in session] for session in period.sessions
        ]
        assert [
            ([(message["role"], message["content"]) for message in event["evicted"]], event["raw"], event["error"])
            for event in line["events"]
        ] == [([(m.role, m.content) for m in event.evicted], list(event.raw), event.error) for event in period.events]
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
    for event in (event for period in read(episode)["periods"] for event in period["events"]):
        assert memory >= Counter(event["removed"])
        memory = memory - Counter(event["removed"]) + Counter(event["added"])
    last = [event for period in episode.periods for event in period.events][-1]
    assert memory == Counter(last.after)
    assert len(memory) > 1


def test_users_are_one_line_each_whatever_they_say() -> None:
    texts = ["two\nlines", 'quotes " and \\', "Grüße, 猫", "\x00\x1f", "{braces}"]
    periods = (one_period(sessions=(tuple(Turn(text, text) for text in texts),)),)
    users = [Episode(name, "key", periods) for name in ("ann", "ben\n")]
    file = "".join(written(episode) + "\n" for episode in users)
    assert file.count("\n") == 2
    for line, episode in zip(file.splitlines(), users, strict=True):
        told = json.loads(line)
        assert told["user"] == episode.user
        assert [turn["assistant"] for turn in told["periods"][0]["sessions"][0]] == texts


async def test_a_failed_episode_tells_why_and_what_came_before(
    make_scenario: MakeScenario, make_model: MakeModel, make_cast: MakeCast
) -> None:
    def reply(request: Request) -> str:
        if "in period 1" in request.messages[-1].content:
            raise LanguageModelError("no such model; check OPENAI_BASE_URL")
        return "fine"

    told = read(await rollout(make_scenario(), AWI, make_cast(make_model(reply=reply))))
    assert told["failure"] == "no such model; check OPENAI_BASE_URL"
    assert [len(period["answers"]) for period in told["periods"]] == [2]
    assert told["spend"]["reply"]["calls"] == 2
