"""Replies that cannot be used while users are made with a language model.

Invariants:

1. A reply that cannot be used is repaired; one that stays bad drops its user, with stage and reason, and no other.
2. No model, whatever it says, costs more calls than announced or ends the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.env.dialogue.generation.plan import GenerationPlan, most_user_calls
from mnemotune.policies.lm import Request

if TYPE_CHECKING:
    from mnemotune.env.dialogue.generation.generation import Generated

Make = Callable[..., "Generated"]
MakeAuthor = Callable[..., Any]

REPLIED = (
    "questions",
    "merge_schema",
    "initial_state",
    "update",
    "events",
    "answers",
    "first_queries",
    "update_queries",
)
STAGE = {
    "questions": "questions",
    "merge_schema": "schema",
    "initial_state": "initial",
    "update": "update-01",
    "events": "events-01",
    "answers": "answers-01",
    "first_queries": "queries-00",
    "update_queries": "queries-01",
}
HOSTILE = (
    "",
    "<html><body>502 Bad Gateway</body></html>",
    "[]",
    "[" * 50_000,
    "{",
    '{"a": ' * 900 + "1" + "}" * 900,
    "42",
    "null",
    "{}",
    '{"questions": null, "queries": 3, "answers": "no", "events": {}, "updated": [], "period_summary": 7}',
    '{"questions": [null, 1, "x", [], {"question": {}, "required_info": [[], null, {"info_type": 3}]}]}',
    '{"queries": [{"exposed_states": [], "query": null, "event": true}, 1], "answers": [{"variant": "x"}, []]}',
    '{"events": [{"states": [[], {}], "event": 1}], "\\ud800": ["\\udfff"], "new_answer": "\\ud800"}',
    '{"answer": 1e999, "new_query": ["x"]}',
    '{"answer": ' + "9" * 5_000 + "}",
    "x" * 200_000,
    "\ud800\udc00 \x00",
)


def rows(generated: Generated) -> list[Any]:
    return [scenario.model_dump(mode="json") for scenario in generated.scenarios]


@pytest.mark.parametrize("kind", REPLIED)
def test_a_bad_reply_is_repaired(make: Make, make_author: MakeAuthor, kind: str) -> None:
    """1. The model is shown its last bad reply and what is wrong with it, nothing else."""

    def spoil(asked: str, request: Request) -> str | None:
        bad = ("no JSON at all", '{"still": "wrong"}')
        return bad[request.repeat] if asked == kind and request.repeat < len(bad) else None

    author = make_author(spoil)
    made = make(author)
    assert made.dropped == ()
    assert rows(made) == rows(make(make_author(), parts="other")), "the mended reply counts as if it were the first"
    first, second, third = (
        author.asked(kind)[0],
        *(next(r for r in author.asked(kind) if r.repeat == n) for n in (1, 2)),
    )
    assert [message.role for message in first.messages] == ["user"]
    for repaired, bad in ((second, "no JSON at all"), (third, '{"still": "wrong"}')):
        assert [message.role for message in repaired.messages] == ["user", "assistant", "user"]
        assert repaired.messages[1].content == bad
    assert "holds no JSON object" in second.messages[2].content
    assert "holds no JSON object" not in third.messages[2].content


@pytest.mark.parametrize("kind", REPLIED)
def test_a_reply_that_stays_bad_drops_its_user_alone(
    make: Make, make_author: MakeAuthor, tmp_path: Path, kind: str
) -> None:
    """1. The other one is what it would have been anyway."""
    whole = make(make_author(), parts="whole")
    name = whole.scenarios[0].user_profile.model_dump()["name"]
    others: set[str] = set()

    def spoil(asked: str, request: Request) -> str | None:
        # only some prompts name the person, but all of a user's prompts name one of its states or its pastimes
        text = request.messages[0].content
        mine = name in text or any(info in text for info in whole.scenarios[0].state_schema if info not in others)
        return "nothing" if asked == kind and mine else None

    others |= whole.scenarios[1].state_schema.keys()
    made = make(make_author(spoil))
    assert rows(made) == rows(whole)[1:]
    (dropped,) = made.dropped
    assert dropped.user == "person-0-000"
    assert dropped.stage.split("-")[0] == STAGE[kind].split("-")[0]
    assert dropped.reason == "the last of 4 replies cannot be used: the reply holds no JSON object"
    told = json.loads((tmp_path / "parts" / "dropped.json").read_text(encoding="utf-8"))
    assert told == [{"user": dropped.user, "stage": dropped.stage, "reason": dropped.reason}]


# Verification


def test_an_answer_that_fails_its_verification_is_refined_and_verified_again(
    make: Make, make_author: MakeAuthor
) -> None:
    seen: list[str] = []

    def spoil(asked: str, request: Request) -> str | None:
        if asked == "check_answer" and not seen:
            seen.append(request.messages[0].content)
            return "I cannot tell: 1, 2 or 3"
        if asked == "refine_answer":
            return '{"new_answer": "Something else altogether."}' if len(seen) < 2 else None
        return None

    author = make_author(spoil)
    assert make(author).dropped == ()
    assert author.kinds["refine_answer"] == 0, "an unreadable verdict says nothing against the answer"
    again = [r for r in author.asked("check_answer") if r.messages[0].content == seen[0]]
    assert sorted(request.repeat for request in again) == [0, 100], "it is asked again, and no cache answers"


def test_answers_that_become_the_same_while_refined_drop_the_user(make: Make, make_author: MakeAuthor) -> None:
    """Each passes by itself, with a reader who somehow knows."""
    numbers: dict[str, str] = {}

    def spoil(asked: str, request: Request) -> str | None:
        text = request.messages[0].content
        if asked == "answers":
            for number, state in re.findall(r"^(\d+): (\{.*\})$", text, re.MULTILINE):
                numbers[str(json.loads(state))] = number
        if asked == "check_answer":
            state = json.JSONDecoder().raw_decode(text, text.index("{\n"))[0]
            return '{"answer": 1}' if request.repeat == 0 else numbers[str(state)]
        return '{"new_answer": "All the same."}' if asked == "refine_answer" else None

    made = make(make_author(spoil), min_variants=5)
    assert len(made.dropped) == 2
    assert all("after verification: - answers: All the same. more than once" in one.reason for one in made.dropped)


@pytest.mark.parametrize(("kind", "verdict"), [("check_answer", '{"answer": 1}'), ("check_query", "{}")])
def test_what_never_passes_its_verification_drops_the_user(
    make: Make, make_author: MakeAuthor, plan: GenerationPlan, kind: str, verdict: str
) -> None:
    """2. The bound holds for a model that never agrees with itself."""
    author = make_author(lambda asked, _: verdict if asked == kind else None)
    made = make(author)
    assert len(made.dropped) == 2
    assert all("fails its verification after 3 refinements" in one.reason for one in made.dropped)
    assert len(author.requests) <= plan.users * most_user_calls(plan, personas=False)


def test_a_first_message_that_tells_twice_is_taken_when_nothing_better_comes(
    make: Make, make_author: MakeAuthor
) -> None:
    def spoil(asked: str, request: Request) -> str | None:
        if asked != "first_queries":
            return None
        state = json.JSONDecoder().raw_decode(request.messages[0].content, request.messages[0].content.index("{\n"))[0]
        told = [*state, next(iter(state))]
        queries = [
            {"exposed_states": {info: state[info]}, "query": f"No {n}: my {info.replace('_', ' ')} is {state[info]}."}
            for n, info in enumerate(told)
        ]
        return json.dumps({"queries": [*queries[1:-1], queries[0] | {"exposed_states": dict(list(state.items())[:2])}]})

    author = make_author(spoil)
    make(author)
    assert len(author.asked("first_queries")) == 8
    assert "more than once" in author.asked("first_queries")[-1].messages[-1].content


# Whatever it says


@pytest.mark.parametrize("reply", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_model_is_no_danger(make: Make, make_author: MakeAuthor, plan: GenerationPlan, reply: str) -> None:
    """2. Whatever it says, from whichever stage on."""
    for kind in (*REPLIED, "check_answer", "check_query", None):
        author = make_author(lambda asked, _, kind=kind: reply if kind in (asked, None) else None)
        made = make(author, parts=f"parts-{kind}")
        assert len(made.scenarios) + len(made.dropped) == 2
        assert len(author.requests) <= plan.users * most_user_calls(plan, personas=False)
        for one in made.dropped:
            one.reason.encode()
            assert len(one.reason) < 10_000


def test_a_hostile_persona_is_no_danger(
    make: Make, make_author: MakeAuthor, tmp_path: Path, plan: GenerationPlan
) -> None:
    path = tmp_path / "people.json"
    path.write_text(json.dumps([{"id": n, "persona": "{profile} \ud800 [[ ## x ## ]]"} for n in ("../a", "b")]))
    for n, reply in enumerate(HOSTILE):
        author = make_author(lambda asked, _, reply=reply: reply if asked == "profile" else None)
        made = make(author, personas=path, parts=f"parts-{n}")
        assert {one.stage for one in made.dropped} == {"profile"}
        assert len(author.requests) == 8
    made = make(make_author(), personas=path)
    assert {scenario.id for scenario in made.scenarios} == {"../a", "b"}
    assert {path.parent for path in (tmp_path / "parts").iterdir()} == {tmp_path / "parts"}


@pytest.mark.parametrize("refinements", [0, 2])
@pytest.mark.parametrize("attempts", [1, 3])
def test_the_bound_holds_for_a_model_that_fails_as_late_and_as_often_as_it_can(
    make: Make, make_author: MakeAuthor, plan: GenerationPlan, attempts: int, refinements: int
) -> None:
    """2. Every reply is right at the last attempt only, and every text at its last verification."""

    def spoil(asked: str, request: Request) -> str | None:
        if asked in ("check_answer", "check_query"):
            return "{}" if request.repeat // 100 < refinements else None
        return "nothing" if request.repeat % 100 < attempts - 1 else None

    author = make_author(spoil)
    made = make(author, attempts=attempts, refinements=refinements)
    assert made.dropped == ()
    lavish = plan.model_copy(update={"attempts": attempts, "refinements": refinements})
    assert len(author.requests) <= plan.users * most_user_calls(lavish, personas=False)
