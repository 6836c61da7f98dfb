"""What a scenario may be.

Invariants:

1. A row parses to a scenario or raises ScenarioError, and nothing else.
2. Each line of an error names the user.
3. A scenario that went through JSON is the same scenario.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mnemotune.data import Scenario, ScenarioError
from mnemotune.data.dialogue.scenario import Session

Place = tuple[str | int, ...]

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=5)
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), WORDS, st.just([]), st.just({}), st.just([{}]), st.floats(allow_nan=False)
)


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield the place of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def replaced(row: dict[str, Any], at: Place, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(row)
    *way, last = at
    inside: Any = changed
    for step in way:
        inside = inside[step]
    inside[last] = value
    return changed


def without(row: dict[str, Any], at: Place) -> dict[str, Any]:
    changed = copy.deepcopy(row)
    *way, last = at
    inside: Any = changed
    for step in way:
        inside = inside[step]
    del inside[last]
    return changed


def problems(row: Any, **options: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(row, **options)
    return str(caught.value).splitlines()


def test_a_row_of_amemgym_parses(row: dict[str, Any]) -> None:
    scenario = Scenario.parse(row)
    assert (scenario.id, scenario.start_time) == ("ann", date(2020, 10, 1))
    assert scenario.user_profile.formatted_str == "name: Ann\nage: 41"
    assert list(scenario.state_schema) == ["pet", "flat"]
    assert [len(period.sessions) for period in scenario.periods] == [1, 2]
    assert scenario.periods[0].period_start is None
    assert scenario.periods[1].period_start == date(2020, 10, 1)
    assert scenario.periods[1].updates["pet"].old == "low"
    assert scenario.periods[1].updates["pet"].new == "high"
    assert scenario.periods[1].sessions[0].event == "Adopted a puppy"
    assert scenario.qas[0].required_info == ["pet", "flat"]
    assert [choice.type for choice in scenario.qas[0].answer_choices] == ["experience", "experience", "random"]


def test_a_session_opens_with_its_time_and_the_query_as_amemgym_words_it(row: dict[str, Any]) -> None:
    session = Scenario.parse(row).periods[1].sessions[1]
    assert session.opening == "[Current Time: 2021-01-01 21:00:59]\nWhat is for dinner?"


def test_what_evaluation_never_reads_may_be_left_out(row: dict[str, Any]) -> None:
    for period in row["periods"]:
        del period["update_cnts"], period["period_summary"]
        for session in period["sessions"]:
            del session["event"], session["messages"]
    for question in row["qas"]:
        for choice in question["answer_choices"]:
            del choice["type"]
    assert len(Scenario.parse(row).periods) == 2


def test_a_scenario_that_went_through_json_is_the_same_scenario(row: dict[str, Any]) -> None:
    scenario = Scenario.parse(row)
    assert Scenario.parse(json.loads(scenario.model_dump_json())) == scenario
    assert Scenario.parse(scenario.model_dump(mode="json")) == scenario


def test_a_row_comes_back_out_as_it_went_in(row: dict[str, Any]) -> None:
    assert Scenario.parse(row).model_dump(mode="json") == row


def test_a_scenario_cannot_be_changed(row: dict[str, Any]) -> None:
    scenario = Scenario.parse(row)
    for record, field in (
        (scenario, "id"),
        (scenario.user_profile, "formatted_str"),
        (scenario.periods[0], "state"),
        (scenario.periods[0].sessions[0], "query"),
        (scenario.periods[0].updates["pet"], "new"),
        (scenario.qas[0], "query"),
        (scenario.qas[0].answer_choices[0], "answer"),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(record, field, "changed")


# Right answers


def test_the_right_answer_is_the_choice_for_the_state_in_the_order_of_required_info(row: dict[str, Any]) -> None:
    question = Scenario.parse(row).qas[0]
    assert question.gold({"flat": "small", "pet": "low"}) == 0
    assert question.gold({"flat": "small", "pet": "high", "more": "x"}) == 1
    assert question.gold({"flat": "large", "pet": "mid"}) == 2


def test_a_question_without_a_right_answer_in_a_period_is_no_error(row: dict[str, Any]) -> None:
    scenario = Scenario.parse(row)
    assert [scenario.qas[1].gold(period.state) for period in scenario.periods] == [0, None]


def test_the_first_of_two_choices_for_one_state_is_the_right_one(row: dict[str, Any]) -> None:
    row["qas"][1]["answer_choices"][1]["state"] = ["low"]
    assert Scenario.parse(row).qas[1].gold({"pet": "low"}) == 0


# Errors

SESSION = ("periods", 1, "sessions", 0)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("id",), 7, "user 7: id: "),
        (("start_time",), "first of May", "user ann: start_time: "),
        (("user_profile",), {}, "user ann: user_profile.formatted_str: Field required"),
        (("state_schema", "pet"), [], "user ann: state_schema.pet: "),
        (("state_schema", "pet"), "low", "user ann: state_schema.pet: "),
        (("periods",), [], "user ann: periods: "),
        (("periods", 1), None, "user ann: period 1: "),
        (("periods", 1, "period_end"), None, "user ann: period 1: period_end: "),
        (("periods", 1, "period_start"), "2020-13-01", "user ann: period 1: period_start: "),
        (("periods", 1, "sessions"), {}, "user ann: period 1: sessions: "),
        (("periods", 1, "update_cnts", "pet"), "many", "user ann: period 1: update_cnts.pet: "),
        ((*SESSION, "query"), None, "user ann: period 1: sessions[0].query: "),
        ((*SESSION, "session_time"), "2021-01-01", "user ann: period 1: sessions[0].session_time: "),
        ((*SESSION, "session_time"), "2021-01-01T20:00:00", "user ann: period 1: sessions[0].session_time: "),
        ((*SESSION, "messages"), ["hello"], "user ann: period 1: sessions[0].messages[0]: "),
        ((*SESSION, "exposed_states", "pet"), 3, "user ann: period 1: sessions[0].exposed_states.pet: "),
        (("periods", 1, "updates", "pet", "new"), None, "user ann: period 1: updates.pet.new: "),
        (("qas", 0, "required_info"), [], "user ann: qas[0].required_info: "),
        (("qas", 0, "answer_choices"), [], "user ann: qas[0].answer_choices: "),
        (("qas", 0, "answer_choices", 2, "answer"), None, "user ann: qas[0].answer_choices[2].answer: "),
        (("qas", 0, "answer_choices", 2, "type"), "guess", "user ann: qas[0].answer_choices[2].type: "),
    ],
)
def test_a_field_of_the_wrong_kind_is_named_with_user_and_period(
    row: dict[str, Any], at: Place, value: Any, said: str
) -> None:
    (line,) = problems(replaced(row, at, value))
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("periods", 1, "state"), {"pet": "high"}, "period 1: state lacks flat"),
        (("periods", 1, "state", "pet"), "tame", "period 1: state.pet: 'tame' is not one of low, mid, high"),
        (("periods", 1, "state", "garden"), "yes", "period 1: state: garden is not in state_schema"),
        (
            ("periods", 1, "updates"),
            {"garden": {"old": None, "new": "yes"}},
            "period 1: updates: garden is not in state_schema",
        ),
        (("periods", 1, "updates", "pet", "new"), "tame", "period 1: updates.pet: 'tame' is not one of low, mid, high"),
        (
            (*SESSION, "exposed_states", "pet"),
            "tame",
            "period 1: sessions[0].exposed_states.pet: 'tame' is not one of low, mid, high",
        ),
        (
            (*SESSION, "exposed_states", "garden"),
            "yes",
            "period 1: sessions[0].exposed_states: garden is not in state_schema",
        ),
        (
            ("qas", 0, "required_info"),
            ["pet", "garden"],
            "qas[0].required_info: garden is not in state_schema",
        ),
        (
            ("qas", 0, "answer_choices", 1, "state"),
            ["high"],
            "qas[0].answer_choices[1].state: has 1 values for 2 infos",
        ),
        (
            ("qas", 0, "answer_choices", 1, "state"),
            ["small", "high"],
            "qas[0].answer_choices[1].state.pet: 'small' is not one of low, mid, high",
        ),
    ],
)
def test_a_state_that_the_schema_does_not_know_is_named_with_user_and_period(
    row: dict[str, Any], at: Place, value: Any, said: str
) -> None:
    lines = problems(replaced(row, at, value))
    assert lines[0].startswith(f"user ann: {said}")


@pytest.mark.parametrize(
    "at",
    [
        ("start_time",),
        ("user_profile",),
        ("state_schema",),
        ("periods",),
        ("qas",),
        ("periods", 1, "period_start"),
        ("periods", 1, "period_end"),
        ("periods", 1, "sessions"),
        ("periods", 1, "state"),
        ("periods", 1, "updates"),
        (*SESSION, "exposed_states"),
        (*SESSION, "query"),
        (*SESSION, "session_time"),
        ("periods", 1, "updates", "pet", "old"),
        ("qas", 0, "query"),
        ("qas", 0, "required_info"),
        ("qas", 0, "answer_choices"),
        ("qas", 0, "answer_choices", 0, "state"),
        ("qas", 0, "answer_choices", 0, "answer"),
    ],
)
def test_a_field_that_is_missing_is_named(row: dict[str, Any], at: Place) -> None:
    (line,) = problems(without(row, at))
    assert line.startswith("user ann: ")
    assert line.endswith(f"{at[-1]}: Field required")
    assert ("period 1: " in line) == (at[0] == "periods" and len(at) > 1)


@pytest.mark.parametrize(
    "at",
    [
        (),
        ("periods", 1),
        SESSION,
        ("periods", 1, "updates", "pet"),
        ("qas", 0),
        ("qas", 0, "answer_choices", 0),
    ],
)
def test_a_field_that_nobody_knows_is_refused(row: dict[str, Any], at: Place) -> None:
    (line,) = problems(replaced(row, (*at, "mood"), "good"))
    assert "mood: no such field" in line
    assert ("period 1: " in line) == (at[:1] == ("periods",))


def test_a_profile_keeps_fields_that_nobody_knows(row: dict[str, Any]) -> None:
    row["user_profile"]["shoe_size"] = 38
    assert Scenario.parse(row).model_dump(mode="json")["user_profile"]["shoe_size"] == 38


def test_two_wrong_fields_are_two_lines(row: dict[str, Any]) -> None:
    row["start_time"] = row["periods"][1]["period_end"] = "soon"
    lines = problems(row)
    assert [line.split(": Input")[0] for line in lines] == ["user ann: start_time", "user ann: period 1: period_end"]


def test_two_wrong_states_are_two_lines_that_each_name_the_user(row: dict[str, Any]) -> None:
    row["periods"][0]["state"]["pet"] = row["periods"][1]["state"]["pet"] = "tame"
    assert problems(row) == [
        "user ann: period 0: state.pet: 'tame' is not one of low, mid, high",
        "user ann: period 1: state.pet: 'tame' is not one of low, mid, high",
    ]


def test_updates_that_say_something_else_than_the_states_are_told(row: dict[str, Any]) -> None:
    assert [*Scenario.parse(row).contradictions()] == []
    info, update = next(iter(row["periods"][1]["updates"].items()))
    missing = Scenario.parse(without(row, ("periods", 1, "updates", info)))
    state = f"whose state was {update['old']!r} and is {update['new']!r}"
    assert [*missing.contradictions()] == [f"period 1: updates: lacks {info}, {state}"]
    other = Scenario.parse(replaced(row, ("periods", 1, "updates", info, "new"), update["old"]))
    told = f"new is {update['old']!r}, and state has {update['new']!r}"
    assert [*other.contradictions()] == [f"period 1: updates.{info}: {told}"]


def test_a_row_without_an_id_is_named_by_its_place(row: dict[str, Any]) -> None:
    (line,) = problems(without(row, ("id",)), position=3)
    assert line == "user #3: id: Field required"


@pytest.mark.parametrize("junk", [None, 7, "a user", [], ["a"], {}])
def test_what_is_no_row_at_all_is_refused(junk: Any) -> None:
    assert all(line.startswith("user #0: ") for line in problems(junk))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_field_holds_the_row_parses_or_the_error_names_the_user(
    row: dict[str, Any], data: st.DataObject
) -> None:
    at = data.draw(st.sampled_from([place for place in places(row) if place != ("id",)]))
    damaged = replaced(row, at, data.draw(JUNK))
    try:
        scenario = Scenario.parse(damaged)
    except ScenarioError as error:
        lines = str(error).splitlines()
    else:
        lines = ["user ann: none"]
        assert Scenario.parse(json.loads(scenario.model_dump_json())) == scenario
    assert lines
    assert all(line.startswith("user ann: ") for line in lines)


# A real user

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "amemgym_sample.json"


@pytest.fixture(scope="module")
def sample() -> Scenario:
    if not SAMPLE.is_file():
        pytest.skip(f"the real user of AMemGym's authors is not beside this checkout ({SAMPLE})")
    (row,) = json.loads(SAMPLE.read_text(encoding="utf-8"))
    return Scenario.parse(row)


def test_the_real_user_has_the_known_figures(sample: Scenario) -> None:
    assert sample.id == "08575ecd"
    assert len(sample.periods) == 11
    assert sum(len(period.sessions) for period in sample.periods) == 57
    assert len(sample.qas) == 10
    assert sum(len(question.answer_choices) for question in sample.qas) == 44
    assert len(sample.state_schema) == 20
    assert sum(len(question.required_info) for question in sample.qas) == 20


def test_the_real_user_has_a_right_answer_to_each_question_in_each_period(sample: Scenario) -> None:
    golds = [question.gold(period.state) for period in sample.periods for question in sample.qas]
    assert len(golds) == 110
    assert None not in golds


def test_the_real_user_is_told_of_each_state_at_the_start_and_tells_each_change(sample: Scenario) -> None:
    assert sample.periods[0].updates.keys() == sample.state_schema.keys()
    for period in sample.periods:
        told: dict[str, str] = {}
        for session in period.sessions:
            told |= session.exposed_states
        assert told == {info: update.new for info, update in period.updates.items()}


def test_the_real_users_sessions_open_with_their_time(sample: Scenario) -> None:
    sessions: list[Session] = [session for period in sample.periods for session in period.sessions]
    assert all(s.opening == f"[Current Time: {s.session_time}]\n{s.query}" for s in sessions)
    assert [s.session_time for s in sessions] == sorted(s.session_time for s in sessions)
