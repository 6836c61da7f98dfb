"""Users made with a language model.

Invariants:

1. A reply that cannot be used is repaired; one that stays bad drops its user, with stage and reason, and no other.
2. What is finished is asked for once: after any interruption the users are the same.
3. Nothing but plan, people, texts and replies decides about a user: not the order of replies, not other users.
4. No model, whatever it says, costs more calls than announced or ends the run.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.data import Scenario, load_scenarios
from mnemotune.env.dialogue.generation import (
    GenerationError,
    GenerationPlan,
    GenerationTexts,
    Progress,
    Recipe,
    expected_calls,
    generate,
    most_calls,
)
from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    EndpointDown,
    LanguageModelError,
    Limits,
    Metered,
    Request,
)

if TYPE_CHECKING:
    from mnemotune.env.dialogue.generation import Generated

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


class KilledError(Exception):
    """Ends a run from within."""


def rows(generated: Generated) -> list[Any]:
    return [scenario.model_dump(mode="json") for scenario in generated.scenarios]


def test_users_come_out_whole_and_in_order(make: Make, make_author: MakeAuthor, plan: GenerationPlan) -> None:
    author = make_author()
    made = make(author)
    assert [scenario.id for scenario in made.scenarios] == ["person-0-000", "person-0-001"]
    assert made.dropped == ()
    for scenario in made.scenarios:
        assert len(scenario.qas) == plan.questions
        assert len(scenario.periods) == plan.periods + 1
        assert len(scenario.state_schema) == plan.states
        told: dict[str, str] = {}
        for p, period in enumerate(scenario.periods):
            assert period.period_end == plan.period_end(p)
            told |= {k: v for session in period.sessions for k, v in session.exposed_states.items()}
            assert told == period.state, "everything that changes is told"
            assert all(question.gold(period.state) is not None for question in scenario.qas)
            assert [session.session_time for session in period.sessions] == sorted(
                session.session_time for session in period.sessions
            )


def test_every_call_says_that_it_generates_and_asks_for_json(make: Make, make_author: MakeAuthor) -> None:
    author = make_author()
    make(author)
    assert {request.role for request in author.requests} == {"generate"}
    assert all(request.json_mode and request.max_tokens == 8192 for request in author.requests)
    hot = {request.temperature for kind in ("questions", "update") for request in author.asked(kind)}
    cool = {request.temperature for kind in ("events", "answers", "check_answer") for request in author.asked(kind)}
    assert (hot, cool) == ({1.0}, {0.2})


def test_about_as_many_calls_are_made_as_announced(make: Make, make_author: MakeAuthor, plan: GenerationPlan) -> None:
    author = make_author()
    make(author)
    announced = plan.users * expected_calls(plan, personas=False)
    assert 0.8 * announced <= len(author.requests) <= 1.2 * announced


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


def test_a_dropped_user_is_tried_again_from_its_last_good_stage_with_other_replies(
    make: Make, make_author: MakeAuthor, tmp_path: Path
) -> None:
    def spoil(asked: str, request: Request) -> str | None:
        return "nothing" if asked == "events" else None

    first = make_author(spoil)
    made = make(first)
    assert len(made.dropped) == 2
    second = make_author()
    again = make(second)
    assert rows(again) == rows(make(make_author(), parts="other"))
    assert second.kinds["questions"] == second.kinds["initial_state"] == 0
    asked_before = {(request.messages, request.repeat) for request in first.requests}
    assert not asked_before & {(request.messages, request.repeat) for request in second.requests}, (
        "a cache would repeat"
    )
    assert json.loads((tmp_path / "parts" / "dropped.json").read_text(encoding="utf-8")) == []
    assert list((tmp_path / "parts").glob("*/dropped.json")) == []


def test_a_call_that_fails_drops_its_user_and_the_next_run_asks_the_same_again(
    make: Make, make_author: MakeAuthor
) -> None:
    def fail(asked: str, request: Request) -> str | None:
        if asked == "initial_state":
            raise LanguageModelError("the endpoint timed out")
        return None

    first, second = make_author(fail), make_author()
    made = make(first)
    assert [(one.stage, one.reason) for one in made.dropped] == [("initial", "the endpoint timed out")] * 2
    assert make(second).dropped == ()
    assert {r.repeat for r in second.asked("initial_state")} == {0}


@pytest.mark.parametrize("error", [EndpointDown("no route"), BudgetExhausted("spent")])
def test_what_no_user_can_help_ends_the_run_and_what_is_finished_stays(
    make: Make, make_author: MakeAuthor, error: Exception
) -> None:
    def fail(asked: str, request: Request) -> str | None:
        if asked == "update":
            raise error
        return None

    with pytest.raises(type(error)):
        make(make_author(fail))
    author = make_author()
    assert rows(make(author)) == rows(make(make_author(), parts="other"))
    assert author.kinds["questions"] == 0


@pytest.mark.parametrize("stop_at", range(0, 64, 3))
def test_a_run_stopped_anywhere_goes_on_to_the_same_users(
    make: Make, make_author: MakeAuthor, tmp_path: Path, stop_at: int
) -> None:
    """2."""
    calls = 0

    def stop(asked: str, request: Request) -> str | None:
        nonlocal calls
        calls += 1
        if calls > stop_at:
            raise KilledError
        return None

    with pytest.raises(KilledError):
        make(make_author(stop))
    finished = {path.relative_to(tmp_path / "parts") for path in (tmp_path / "parts").glob("*/*.json")}
    before = {path: (tmp_path / "parts" / path).read_bytes() for path in finished}
    author = make_author()
    assert rows(make(author)) == rows(make(make_author(), parts="other"))
    assert {path: (tmp_path / "parts" / path).read_bytes() for path in finished} == before
    assert author.kinds["questions"] == 2 - sum(path.name == "questions.json" for path in finished)


def test_a_finished_run_asks_nothing(make: Make, make_author: MakeAuthor) -> None:
    made, author = make(make_author()), make_author()
    assert rows(make(author)) == rows(made)
    assert author.requests == []


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"questions": []}', "\x00"])
def test_a_damaged_stage_is_made_again(make: Make, make_author: MakeAuthor, tmp_path: Path, damage: str) -> None:
    made = make(make_author())
    for file in ("questions.json", "scenario.json"):
        (tmp_path / "parts" / "0000-person-0-000" / file).write_text(damage, encoding="utf-8")
    author = make_author()
    assert rows(make(author)) == rows(made)
    assert author.kinds == {"questions": 1}


def test_the_order_in_which_replies_come_changes_nothing(
    make: Make,
    make_author: MakeAuthor,
    plan: GenerationPlan,
    tagged: GenerationTexts,
    tmp_path: Path,
    run_virtually: Any,
) -> None:
    """3. Messages that fail their verification are refined on the way."""

    def spoil(asked: str, request: Request) -> str | None:
        failing = len(request.messages[0].content) % 3 == 0 and request.repeat == 0
        return '{"answer": 1}' if asked == "check_answer" and failing else None

    results = []
    for seed in range(4):
        rng = random.Random(f"delays:{seed}")
        author = make_author(spoil, delay=lambda _, rng=rng: rng.choice((0.0, 0.1, 1.0, 9.0)) * rng.random())
        made, _ = run_virtually(generate(Recipe(plan, tagged), author, tmp_path / str(seed)))
        results.append(rows(made))
        assert author.kinds["refine_answer"] > 0
    assert results[0] == results[1] == results[2] == results[3]


def test_users_and_what_is_independent_in_them_run_side_by_side(
    make_author: MakeAuthor, plan: GenerationPlan, tagged: GenerationTexts, tmp_path: Path, run_virtually: Any
) -> None:
    """Questions, schema, initial state, an update each period, then events, messages and their verification."""
    author = make_author(delay=lambda _: 1.0)
    _, seconds = run_virtually(generate(Recipe(plan, tagged), author, tmp_path / "parts"))
    assert seconds == 3 + plan.periods + 3
    assert len(author.requests) > 60


def test_a_user_is_the_same_however_many_are_made(make: Make, make_author: MakeAuthor) -> None:
    few, many = make(make_author(), parts="few"), make(make_author(), parts="many", users=3)
    assert rows(many)[:2] == rows(few)
    author = make_author()
    assert rows(make(author, parts="few", users=3)) == rows(many)
    assert author.kinds["questions"] == 1, "more users go on in the same folder"


def test_another_seed_makes_other_people_and_another_order_of_choices(make: Make, make_author: MakeAuthor) -> None:
    one, same = (make(make_author(), parts=parts, seed=1) for parts in ("one", "same"))
    other = make(make_author(), parts="other", seed=2)
    assert rows(one) == rows(same)
    assert {s.user_profile.formatted_str for s in one.scenarios}.isdisjoint(
        s.user_profile.formatted_str for s in other.scenarios
    )


def test_choices_are_shuffled_and_by_name_are_not(make: Make, make_author: MakeAuthor) -> None:
    def orders(scenario: Scenario) -> list[list[str]]:
        return [[choice.type for choice in question.answer_choices] for question in scenario.qas]

    kept = make(make_author(), parts="kept", compat=frozenset({"unshuffled_choices"})).scenarios
    mixed = make(make_author()).scenarios
    for plain, shuffled in zip(kept, mixed, strict=True):
        assert all(kinds == sorted(kinds) for kinds in orders(plain)), "lived ones first, fillers after"
        for one, other in zip(plain.qas, shuffled.qas, strict=True):
            assert one.answer_choices[0].state == [plain.periods[0].state[info] for info in one.required_info]
            assert sorted(c.answer for c in one.answer_choices) == sorted(c.answer for c in other.answer_choices)
    assert any(kinds != sorted(kinds) for scenario in mixed for kinds in orders(scenario))


def test_counts_are_those_so_far_and_by_name_the_final_ones(make: Make, make_author: MakeAuthor) -> None:
    def totals(generated: Generated) -> list[int]:
        return [sum(period.update_cnts.values()) for period in generated.scenarios[0].periods]

    assert totals(make(make_author())) == [0, 2, 4]
    assert totals(make(make_author(), parts="final", compat=frozenset({"final_update_counts"}))) == [4, 4, 4]


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
    """4. The bound holds for a model that never agrees with itself."""
    author = make_author(lambda asked, _: verdict if asked == kind else None)
    made = make(author)
    assert len(made.dropped) == 2
    assert all("fails its verification after 3 refinements" in one.reason for one in made.dropped)
    assert len(author.requests) <= plan.users * most_calls(plan, personas=False)


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


@pytest.mark.parametrize("reply", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_model_is_no_danger(make: Make, make_author: MakeAuthor, plan: GenerationPlan, reply: str) -> None:
    """4. Whatever it says, from whichever stage on."""
    for kind in (*REPLIED, "check_answer", "check_query", None):
        author = make_author(lambda asked, _, kind=kind: reply if kind in (asked, None) else None)
        made = make(author, parts=f"parts-{kind}")
        assert len(made.scenarios) + len(made.dropped) == 2
        assert len(author.requests) <= plan.users * most_calls(plan, personas=False)
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
    """4. Every reply is right at the last attempt only, and every text at its last verification."""

    def spoil(asked: str, request: Request) -> str | None:
        if asked in ("check_answer", "check_query"):
            return "{}" if request.repeat // 100 < refinements else None
        return "nothing" if request.repeat % 100 < attempts - 1 else None

    author = make_author(spoil)
    made = make(author, attempts=attempts, refinements=refinements)
    assert made.dropped == ()
    lavish = plan.model_copy(update={"attempts": attempts, "refinements": refinements})
    assert len(author.requests) <= plan.users * most_calls(lavish, personas=False)


def test_a_budget_is_never_overshot_and_more_of_it_goes_on(
    make_author: MakeAuthor, make: Make, plan: GenerationPlan, tagged: GenerationTexts, tmp_path: Path
) -> None:
    calls, runs = 0, 0
    while True:
        author = make_author()
        metered = Metered(author, budget=Budget(Limits(calls=25)))
        runs += 1
        try:
            made = asyncio.run(generate(Recipe(plan, tagged), metered, tmp_path / "thrifty"))
        except BudgetExhausted:
            assert len(author.requests) <= 25
            calls += len(author.requests)
            continue
        break
    assert runs > 2
    assert rows(made) == rows(make(make_author()))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"questions": 2, "changes_per_period": 1}, "changes_per_period was 2 and is 1; questions was 3 and is 2"),
        ({"language": "Welsh"}, 'language was "English" and is "Welsh"'),
        ({"compat": frozenset({"unshuffled_choices"})}, 'compat was [] and is ["unshuffled_choices"]'),
    ],
)
def test_other_settings_are_refused_in_the_same_folder(
    make: Make, make_author: MakeAuthor, changed: dict[str, Any], told: str
) -> None:
    make(make_author())
    with pytest.raises(GenerationError, match="holds users made from other settings") as error:
        make(make_author(), **changed)
    assert told in str(error.value)
    assert "--parts" in str(error.value)


def test_another_model_other_texts_and_other_people_are_refused(
    make: Make, make_author: MakeAuthor, tagged: GenerationTexts, tmp_path: Path
) -> None:
    make(make_author())
    other = make_author()
    other.name = "another"
    with pytest.raises(GenerationError, match='model was "author" and is "another"'):
        make(other)
    with pytest.raises(GenerationError, match="texts was"):
        make(make_author(), texts=tagged.model_copy(update={"events": f"{tagged.events} Please."}))
    people = tmp_path / "people.json"
    people.write_text(json.dumps([{"id": str(n), "persona": "Likes tea."} for n in range(3)]), encoding="utf-8")
    with pytest.raises(GenerationError, match="personas was null"):
        make(make_author(), personas=people)


def test_more_patience_is_no_other_setting(make: Make, make_author: MakeAuthor) -> None:
    make(make_author(lambda asked, _: "nothing" if asked == "events" else None), attempts=1)
    assert make(make_author(), attempts=3, refinements=9).dropped == ()


def test_a_folder_of_something_else_or_a_damaged_one_is_left_alone(
    make: Make, make_author: MakeAuthor, tmp_path: Path
) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "package.json").write_text("{}", encoding="utf-8")
    with pytest.raises(GenerationError, match="in use for something else"):
        make(make_author(), parts="foreign")
    make(make_author())
    for damaged in ("{", "[]", "null"):
        (tmp_path / "parts" / "plan.json").write_text(damaged, encoding="utf-8")
        with pytest.raises(GenerationError, match=r"plan\.json: is damaged"):
            make(make_author())


def test_two_runs_do_not_share_a_folder(
    make_author: MakeAuthor, plan: GenerationPlan, tagged: GenerationTexts, tmp_path: Path
) -> None:
    async def both() -> None:
        first = asyncio.create_task(generate(Recipe(plan, tagged), make_author(delay=lambda _: 0.01), tmp_path / "p"))
        await asyncio.sleep(0)
        with pytest.raises(GenerationError, match="another run"):
            await generate(Recipe(plan, tagged), make_author(), tmp_path / "p")
        assert (await first).dropped == ()

    asyncio.run(both())


def test_progress_is_told_stage_by_stage(
    make_author: MakeAuthor, plan: GenerationPlan, tagged: GenerationTexts, tmp_path: Path
) -> None:
    told: list[Progress] = []
    asyncio.run(generate(Recipe(plan, tagged), make_author(), tmp_path / "parts", tell=told.append))
    assert told[-1].users == 2
    assert [(p.users, p.stages) for p in told] == sorted((p.users, p.stages) for p in told)
    files = list((tmp_path / "parts").glob("*/*.json"))
    assert told[-1].stages == len(files)


def test_what_is_written_is_what_is_loaded(make: Make, make_author: MakeAuthor, tmp_path: Path) -> None:
    made = make(make_author())
    (tmp_path / "users.json").write_text(json.dumps(rows(made)), encoding="utf-8")
    assert load_scenarios(tmp_path / "users.json") == list(made.scenarios)


def merging(request: Request) -> str:
    """Say that the first info types of the first two questions are the same."""
    text = request.messages[0].content
    questions = json.JSONDecoder().raw_decode(text, text.index("[\n"))[0]
    types = [list(question["info_types"]) for question in questions]
    same = {"both": [types[0][0], types[1][0]]}
    return json.dumps(same | {info: [info] for names in types for info in names if info not in same["both"]})


def test_choices_of_merged_info_types_are_unified_and_those_alone(make: Make, make_author: MakeAuthor) -> None:
    """A reply that forgets some is repaired like any other."""

    def spoil(asked: str, request: Request) -> str | None:
        if asked == "merge_schema":
            return merging(request)
        return "{}" if asked == "unify_choices" and request.repeat == 0 else None

    author = make_author(spoil)
    made = make(author)
    assert made.dropped == ()
    assert author.kinds["unify_choices"] == 4
    assert "info types: both missing" in author.asked("unify_choices")[-1].messages[-1].content
    for scenario in made.scenarios:
        assert len(scenario.state_schema) == 5
        assert [scenario.qas[q].required_info[0] for q in (0, 1)] == ["both", "both"]
    again = make_author(spoil)
    assert rows(make(again)) == rows(made)
    assert again.requests == []


def test_people_of_a_file_are_described_and_excluded_ones_left_out(
    make: Make, make_author: MakeAuthor, tmp_path: Path
) -> None:
    people = [{"uuid": f"u{n}", "persona": f"Rosa Diaz is number {n}.", "occupation": "baker"} for n in range(3)]
    (tmp_path / "people.json").write_text(json.dumps(people), encoding="utf-8")
    author = make_author()
    made = make(author, personas=tmp_path / "people.json", exclude_ids=("u1",))
    assert {scenario.id for scenario in made.scenarios} == {"u0", "u2"}
    assert author.kinds["profile"] == 2
    for scenario in made.scenarios:
        told = scenario.user_profile.model_dump()
        assert told["name"] == "Rosa Diaz"
        assert told["complementary_info"] == f"Rosa Diaz is number {scenario.id[1]}."
        assert any(told["formatted_str"] in request.messages[0].content for request in author.asked("questions"))


def test_a_plan_without_changes_is_a_life_that_stands_still(make: Make, make_author: MakeAuthor) -> None:
    made = make(make_author(), periods=0)
    assert [len(scenario.periods) for scenario in made.scenarios] == [1, 1]
    kinds = [[choice.type for choice in question.answer_choices] for s in made.scenarios for question in s.qas]
    assert all(sorted(one) == ["experience", "random", "random", "random"] for one in kinds)
