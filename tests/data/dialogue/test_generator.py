"""Lives that are made up.

Invariants:

1. User i of a seed is the same user however many are made.
2. A session tells exactly the states that it is said to expose.
3. What changes is told in the period in which it changes, and the state is what was told last.
4. Each question has one right answer in each period.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, datetime, timedelta
from itertools import pairwise
from statistics import mean

import pytest

from mnemotune.data import Scenario, ScenarioError
from mnemotune.data.dialogue.generator import Statements, check_scenario, generate_scenarios
from mnemotune.data.dialogue.library import load_library
from mnemotune.data.dialogue.scenario import AnswerChoice, Period, Question, Session
from mnemotune.data.dialogue.sizes import Shape
from mnemotune.policies.text import sentences

LIBRARY = load_library()
USERS = 20
PERIODS = 11


@pytest.fixture(scope="module")
def users() -> list[Scenario]:
    return generate_scenarios(users=USERS, seed=42)


@pytest.fixture(scope="module")
def one(users: list[Scenario]) -> Scenario:
    return users[0]


def periods(users: list[Scenario]) -> list[Period]:
    return [period for user in users for period in user.periods]


def sessions(users: list[Scenario]) -> list[Session]:
    return [session for period in periods(users) for session in period.sessions]


def questions(users: list[Scenario]) -> list[Question]:
    return [question for user in users for question in user.qas]


# Seeds


def test_the_same_seed_makes_the_same_users(users: list[Scenario]) -> None:
    assert generate_scenarios(users=3, seed=42) == users[:3]


def test_another_seed_makes_other_users(users: list[Scenario]) -> None:
    (other,) = generate_scenarios(users=1, seed=43)
    assert other.id != users[0].id
    assert other.model_copy(update={"id": users[0].id}) != users[0]


def test_no_two_users_of_a_seed_are_alike(users: list[Scenario]) -> None:
    assert len({user.id for user in users}) == USERS
    assert len({tuple(session.query for session in sessions([user])) for user in users}) == USERS


def test_generation_leaves_the_global_random_numbers_alone() -> None:
    before = random.getstate()
    generate_scenarios(users=1, seed=1)
    assert random.getstate() == before


def test_no_users_are_no_users() -> None:
    assert generate_scenarios(users=0, seed=1) == []


# Proportions of AMemGym's v1.base


def test_a_life_has_eleven_periods_of_three_months(users: list[Scenario]) -> None:
    for user in users:
        assert user.start_time == date(2020, 10, 1)
        assert [period.period_end for period in user.periods][:4] == [
            date(2020, 10, 1),
            date(2021, 1, 1),
            date(2021, 4, 1),
            date(2021, 7, 1),
        ]
        assert len(user.periods) == PERIODS
        assert user.periods[-1].period_end == date(2023, 4, 1)
        assert user.periods[0].period_start is None
        assert all(later.period_start == earlier.period_end for earlier, later in pairwise(user.periods))


def test_a_user_has_ten_questions_of_two_states_of_three_values(users: list[Scenario]) -> None:
    for user in users:
        assert len(user.qas) == 10
        assert [len(question.required_info) for question in user.qas] == [2] * 10
        asked = [info for question in user.qas for info in question.required_info]
        assert sorted(asked) == sorted(user.state_schema)
        assert {len(values) for values in user.state_schema.values()} == {3}


def test_about_four_states_change_in_a_period_and_none_changes_often(users: list[Scenario]) -> None:
    counts = [len(period.updates) for user in users for period in user.periods[1:]]
    assert set(counts) <= {3, 4, 5}
    assert mean(counts) == pytest.approx(4, abs=0.1)
    for user in users:
        changes = Counter(info for period in user.periods[1:] for info in period.updates)
        assert max(changes.values()) <= 3


def test_a_question_has_four_or_more_answers_of_which_one_in_four_is_right_by_chance(users: list[Scenario]) -> None:
    sizes = [len(question.answer_choices) for question in questions(users)]
    assert min(sizes) >= 4
    assert mean(1 / size for size in sizes) == pytest.approx(0.231, abs=0.03)


def test_there_are_about_as_many_sessions_as_in_v1_base(users: list[Scenario]) -> None:
    assert len(sessions(users)) == pytest.approx(943, rel=0.1)
    assert sum(len(user.periods[0].sessions) for user in users) == pytest.approx(233, rel=0.1)


def test_another_shape_is_kept_to() -> None:
    shape = Shape(
        changed_periods=3, months_per_period=1, questions=4, changes_per_period=2, changes_per_state=1, min_variants=6
    )
    for user in generate_scenarios(users=4, seed=7, shape=shape):
        assert [period.period_end for period in user.periods] == [date(2020, 10 + month, 1) for month in range(3)] + [
            date(2021, 1, 1)
        ]
        assert len(user.qas) == 4
        assert min(len(question.answer_choices) for question in user.qas) >= 6
        assert {len(period.updates) for period in user.periods[1:]} <= {1, 2, 3}
        assert max(Counter(info for period in user.periods[1:] for info in period.updates).values()) == 1


# What is told


def test_all_states_are_told_at_the_start_and_each_change_when_it_happens(users: list[Scenario]) -> None:
    for period in periods(users):
        told = [pair for session in period.sessions for pair in session.exposed_states.items()]
        assert sorted(told) == sorted((info, update.new) for info, update in period.updates.items())
    for user in users:
        assert user.periods[0].updates.keys() == user.state_schema.keys()


def test_the_state_is_what_was_told_last(users: list[Scenario]) -> None:
    for user in users:
        known: dict[str, str] = {}
        for period in user.periods:
            for info, update in period.updates.items():
                assert update.old == known.get(info)
                assert update.new != update.old
                known[info] = update.new
            assert period.state == known


def test_a_query_holds_a_statement_of_each_exposed_state_and_of_no_other(users: list[Scenario]) -> None:
    told = {
        line: (info, value)
        for topic in LIBRARY.values()
        for info, variable in topic.variables.items()
        for value, texts in variable.values.items()
        for line in texts.statements
    }
    for session in sessions(users[:6]):
        heard = [told[line] for line in told if line in session.query]
        assert sorted(heard) == sorted(session.exposed_states.items())


def test_three_facts_in_four_are_told_inside_a_request(users: list[Scenario]) -> None:
    """As by AMemGym's real users: 953 of 1,226."""
    tellings = [texts.a for t in LIBRARY.values() for v in t.variables.values() for texts in v.values.values()]
    asked = [line for told in tellings for line in told.asked + told.change_asked]
    facts = sum(len(session.exposed_states) for session in sessions(users))
    inside = sum(session.query.count(line) for session in sessions(users) for line in asked)
    assert inside / facts == pytest.approx(953 / 1226, abs=0.05)


def test_a_query_asks_for_something(users: list[Scenario]) -> None:
    assert all("?" in session.query for session in sessions(users))


def test_some_queries_hold_everyday_talk_besides(users: list[Scenario]) -> None:
    talk = [line for topic in LIBRARY.values() for line in topic.chat.a]
    queries = [session.query for session in sessions(users[:4])]
    share = mean(any(line in query for line in talk) for query in queries)
    assert 0.15 < share < 0.45


def test_the_same_lives_are_told_in_other_words(users: list[Scenario]) -> None:
    others = generate_scenarios(users=6, seed=42, phrasing="b")
    heard = {sentence for session in sessions(users) for sentence in sentences(session.query)}
    heard |= {question.query for question in questions(users)}
    for user, other in zip(users, others, strict=False):
        assert (other.id, other.state_schema) == (user.id, user.state_schema)
        assert [period.state for period in other.periods] == [period.state for period in user.periods]
        told = {sentence for session in sessions([other]) for sentence in sentences(session.query)}
        assert (told | {question.query for question in other.qas}) & heard == set()


def test_a_user_never_opens_two_sessions_alike(users: list[Scenario]) -> None:
    for user in users:
        queries = [session.query for session in sessions([user])]
        assert len(set(queries)) == len(queries)


def test_the_profile_gives_no_state_away(users: list[Scenario]) -> None:
    for user in users:
        shown = user.user_profile.formatted_str.lower()
        assert [v for values in user.state_schema.values() for v in values if v.replace("_", " ") in shown] == []


# When it is told


def test_sessions_are_on_the_last_evenings_of_their_period(users: list[Scenario]) -> None:
    for period in periods(users):
        times = [datetime.fromisoformat(session.session_time) for session in period.sessions]
        assert [time.date() for time in times] == [
            period.period_end - timedelta(days=days) for days in range(len(times))
        ][::-1]
        assert all(19 <= time.hour < 22 for time in times)


# Questions


def test_each_question_has_one_right_answer_in_each_period(users: list[Scenario]) -> None:
    for user in users:
        for question in user.qas:
            for period in user.periods:
                wanted = [period.state[info] for info in question.required_info]
                assert [choice.state for choice in question.answer_choices].count(wanted) == 1


def test_the_answers_differ_in_state_and_in_text(users: list[Scenario]) -> None:
    for question in questions(users):
        size = len(question.answer_choices)
        assert len({tuple(choice.state) for choice in question.answer_choices}) == size
        assert len({choice.answer for choice in question.answer_choices}) == size


def test_an_answer_is_called_experience_just_when_its_state_was_lived(users: list[Scenario]) -> None:
    for user in users:
        for question in user.qas:
            lived = [[period.state[info] for info in question.required_info] for period in user.periods]
            assert all((choice.type == "experience") == (choice.state in lived) for choice in question.answer_choices)


def test_an_answer_is_advice_for_each_of_its_states(users: list[Scenario]) -> None:
    advice = {
        (info, value): texts.advice
        for topic in LIBRARY.values()
        for info, variable in topic.variables.items()
        for value, texts in variable.values.items()
    }
    for question in questions(users):
        for choice in question.answer_choices:
            for pair in zip(question.required_info, choice.state, strict=True):
                assert any(line in choice.answer for line in advice[pair])


def test_the_place_of_the_right_answer_says_nothing(users: list[Scenario]) -> None:
    golds = [
        (q.gold(user.periods[p].state), len(q.answer_choices)) for user in users for q in user.qas for p in (0, 10)
    ]
    first = mean(gold == 0 for gold, _ in golds)
    last = mean(gold == size - 1 for gold, size in golds)
    assert first == pytest.approx(mean(1 / size for _, size in golds), abs=0.08)
    assert last == pytest.approx(mean(1 / size for _, size in golds), abs=0.08)


# The checks


def damaged_session(user: Scenario, **changes: object) -> Scenario:
    first, *others = user.periods
    session, *rest = first.sessions
    period = first.model_copy(update={"sessions": [session.model_copy(update=changes), *rest]})
    return user.model_copy(update={"periods": [period, *others]})


def damaged_choices(user: Scenario, choices: list[AnswerChoice]) -> Scenario:
    first, *others = user.qas
    return user.model_copy(update={"qas": [first.model_copy(update={"answer_choices": choices}), *others]})


def problem(scenario: Scenario) -> str:
    with pytest.raises(ScenarioError) as caught:
        check_scenario(scenario, Statements(LIBRARY))
    return str(caught.value)


def other_statement(user: Scenario) -> str:
    """Return a statement of a state that the user's first session does not expose."""
    exposed = user.periods[0].sessions[0].exposed_states
    return next(
        texts.a.stated[0]
        for topic in LIBRARY.values()
        for info, variable in topic.variables.items()
        for texts in variable.values.values()
        if info not in exposed
    )


def test_a_life_as_it_is_made_passes_the_checks(one: Scenario) -> None:
    check_scenario(one, Statements(LIBRARY))


def test_a_query_that_does_not_tell_its_states_is_caught(one: Scenario) -> None:
    said = problem(damaged_session(one, query="Hello?"))
    assert said.startswith(f"user {one.id}: period 0: sessions[0].query exposes [], not [(")


def test_a_query_that_tells_another_state_is_caught(one: Scenario) -> None:
    query = f"{one.periods[0].sessions[0].query} {other_statement(one)}"
    assert f"user {one.id}: period 0: sessions[0].query exposes" in problem(damaged_session(one, query=query))


def test_an_exposed_state_that_is_not_told_is_caught(one: Scenario) -> None:
    said = problem(damaged_session(one, exposed_states={}))
    assert said.startswith(f"user {one.id}: period 0: sessions[0].query exposes [(")
    assert said.endswith("not []")


def test_two_answers_for_one_state_are_caught(one: Scenario) -> None:
    first, second, *rest = one.qas[0].answer_choices
    choices = [first, second.model_copy(update={"state": first.state}), *rest]
    assert problem(damaged_choices(one, choices)) == (
        f"user {one.id}: qas[0].answer_choices: two choices have equal states"
    )


def test_two_answers_of_one_text_are_caught(one: Scenario) -> None:
    first, second, *rest = one.qas[0].answer_choices
    choices = [first, second.model_copy(update={"answer": first.answer}), *rest]
    assert problem(damaged_choices(one, choices)) == (
        f"user {one.id}: qas[0].answer_choices: two choices have equal answers"
    )


def test_a_right_answer_that_is_missing_is_caught(one: Scenario) -> None:
    question = one.qas[0]
    gold = question.gold(one.periods[0].state)
    choices = [choice for c, choice in enumerate(question.answer_choices) if c != gold]
    assert problem(damaged_choices(one, choices)) == f"user {one.id}: period 0: qas[0] has no answer for the state"
