"""Users made with a language model.

Invariant: nothing but plan, people, texts and replies decides about a user: not the order of replies, not other users.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemotune.data import Scenario, load_scenarios
from mnemotune.env.dialogue.generation.generation import GenerationSetup, generate
from mnemotune.env.dialogue.generation.plan import GenerationPlan, expected_user_calls
from mnemotune.env.dialogue.generation.texts import GenerationTexts
from mnemotune.policies.lm import Request

if TYPE_CHECKING:
    from mnemotune.env.dialogue.generation.generation import Generated

Make = Callable[..., "Generated"]
MakeAuthor = Callable[..., Any]


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
    assert all(request.form and request.max_tokens == 8192 for request in author.requests)
    hot = {request.temperature for kind in ("questions", "update") for request in author.asked(kind)}
    cool = {request.temperature for kind in ("events", "answers", "check_answer") for request in author.asked(kind)}
    assert (hot, cool) == ({1.0}, {0.2})


def test_about_as_many_calls_are_made_as_announced(make: Make, make_author: MakeAuthor, plan: GenerationPlan) -> None:
    author = make_author()
    make(author)
    announced = plan.users * expected_user_calls(plan, personas=False)
    assert 0.8 * announced <= len(author.requests) <= 1.2 * announced


def test_the_order_in_which_replies_come_changes_nothing(
    make: Make,
    make_author: MakeAuthor,
    plan: GenerationPlan,
    tagged: GenerationTexts,
    tmp_path: Path,
    run_virtually: Any,
) -> None:
    """Messages that fail their verification are refined on the way."""

    def spoil(asked: str, request: Request) -> str | None:
        failing = len(request.messages[0].content) % 3 == 0 and request.repeat == 0
        return '{"answer": 1}' if asked == "check_answer" and failing else None

    results = []
    for seed in range(4):
        rng = random.Random(f"delays:{seed}")
        author = make_author(spoil, delay=lambda _, rng=rng: rng.choice((0.0, 0.1, 1.0, 9.0)) * rng.random())
        made, _ = run_virtually(generate(GenerationSetup(plan, tagged), author, tmp_path / str(seed)))
        results.append(rows(made))
        assert author.kinds["refine_answer"] > 0
    assert results[0] == results[1] == results[2] == results[3]


def test_users_and_what_is_independent_in_them_run_side_by_side(
    make_author: MakeAuthor, plan: GenerationPlan, tagged: GenerationTexts, tmp_path: Path, run_virtually: Any
) -> None:
    """Questions, schema, initial state, an update each period, then events, messages and their verification."""
    author = make_author(delay=lambda _: 1.0)
    _, seconds = run_virtually(generate(GenerationSetup(plan, tagged), author, tmp_path / "parts"))
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
