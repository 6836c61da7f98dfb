"""What a scenario tells to be remembered, and what it asks.

Invariants:

1. The facts about a state tile its periods, and each says the value that the state has in them.
2. A check needs one fact of each state that its question is about: the one that holds at its stage.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lives import life
from mnemotune.data import Scenario


def changing(*changes: dict[str, str]) -> Scenario:
    """Make a life in which pet and flat start low; each later period has its changes."""
    choices = [{"state": [value], "answer": f"Fit for {value}"} for value in ("low", "mid")]
    return life(
        "ann",
        sessions=[2] * (len(changes) + 1),
        news=[{"pet": "low", "flat": "low"}, *changes],
        says=lambda p, s: f"ann in period {p}, session {s}.",
        values=("low", "mid", "high"),
        qas=[
            {"query": "Which food?", "required_info": ["pet"], "answer_choices": choices},
            {
                "query": "Which toys?",
                "required_info": ["flat", "pet"],
                "answer_choices": [
                    {"state": [flat, "low"], "answer": f"Toys for {flat}"} for flat in ("low", "mid", "high", "low")
                ],
            },
        ],
    )


def test_a_fact_lasts_from_the_period_that_tells_it_to_the_one_that_overwrites_it() -> None:
    scenario = changing({}, {"pet": "mid"}, {"pet": "low", "flat": "high"})
    facts = scenario.facts
    assert list(facts) == ["pet@0", "pet@2", "pet@3", "flat@0", "flat@3"]
    assert [fact.id for fact in facts.values()] == list(facts)
    assert [(fact.key, fact.topic, fact.text, fact.since, fact.until) for fact in facts.values()] == [
        ("pet", "pet", "pet: low", 0, 2),
        ("pet", "pet", "pet: mid", 2, 3),
        ("pet", "pet", "pet: low", 3, None),
        ("flat", "flat", "flat: low", 0, 3),
        ("flat", "flat", "flat: high", 3, None),
    ]
    assert facts["pet@2"].sources == ("[Current Time: 2023-01-01 20:00:00]\nann in period 2, session 0. pet is mid.",)


def test_the_sources_of_a_fact_are_all_sessions_that_tell_it_while_it_holds(row: dict[str, Any]) -> None:
    row["periods"][1]["sessions"][1]["exposed_states"] = {"flat": "small"}
    scenario = Scenario.parse(row)
    openings = [session.opening for period in scenario.periods for session in period.sessions]
    sources = {fact.id: [openings.index(source) for source in fact.sources] for fact in scenario.facts.values()}
    assert sources == {"pet@0": [0], "pet@1": [1], "flat@0": [0, 2]}


def test_a_check_is_a_question_at_the_end_of_a_period() -> None:
    """Two of four choices suit low and low, so that a blind guess is right every second time; none suits a mid pet."""
    scenario = changing({"pet": "mid"}, {"flat": "high", "pet": "low"})
    checks = scenario.checks
    assert list(checks) == ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"]
    assert [(check.id, check.question, check.stage) for check in checks.values()] == [
        (f"{p}.{q}", str(q), p) for p in range(3) for q in range(2)
    ]
    assert {check.text for check in checks.values() if check.question == "1"} == {"Which toys?"}
    assert [check.needs for check in checks.values()] == [
        ("pet@0",),
        ("flat@0", "pet@0"),
        ("pet@1",),
        ("flat@0", "pet@1"),
        ("pet@2",),
        ("flat@2", "pet@2"),
    ]
    assert [check.chance for check in checks.values()] == [1 / 2, 1 / 2, 1 / 2, 0.0, 1 / 2, 1 / 4]


def test_a_user_is_a_group_and_periods_are_stages(row: dict[str, Any]) -> None:
    scenario = Scenario.parse(row)
    assert (scenario.group, scenario.stages) == ("ann", 2)


def test_a_copy_has_facts_and_checks_of_its_own_and_what_was_looked_up_makes_no_difference() -> None:
    scenario, fresh = changing({"pet": "mid"}), changing({"pet": "mid"})
    assert (len(scenario.facts), len(scenario.checks)) == (3, 4)
    assert scenario == fresh
    assert scenario.model_dump() == fresh.model_dump()
    cut = scenario.model_copy(update={"periods": scenario.periods[:1]})
    assert (len(cut.facts), len(cut.checks)) == (2, 2)
    assert cut.facts["pet@0"].until is None
    assert (len(scenario.facts), len(scenario.checks)) == (3, 4)


changes_of_lives = st.lists(
    st.dictionaries(st.sampled_from(["pet", "flat"]), st.sampled_from(["low", "mid", "high"])), max_size=6
)


@given(changes=changes_of_lives)
def test_facts_about_a_state_tile_its_periods_and_say_its_value_invariant_1(changes: list[dict[str, str]]) -> None:
    scenario = changing(*changes)
    for info in scenario.state_schema:
        facts = [fact for fact in scenario.facts.values() if fact.key == info]
        assert [fact.since for fact in facts] == [0, *(fact.until for fact in facts[:-1])]
        assert facts[-1].until is None
        for fact in facts:
            held = scenario.periods[fact.since : fact.until]
            assert held
            assert {f"{info}: {period.state[info]}" for period in held} == {fact.text}


@given(changes=changes_of_lives)
def test_every_check_needs_a_fact_of_each_required_state_that_holds_invariant_2(changes: list[dict[str, str]]) -> None:
    scenario = changing(*changes)
    for check in scenario.checks.values():
        facts = [scenario.facts[fact] for fact in check.needs]
        assert [fact.key for fact in facts] == scenario.qas[int(check.question)].required_info
        assert all(fact.since <= check.stage and (fact.until is None or check.stage < fact.until) for fact in facts)
        state = scenario.periods[check.stage].state
        assert [fact.text for fact in facts] == [f"{fact.key}: {state[fact.key]}" for fact in facts]


@pytest.mark.parametrize(("info", "lasts"), [("pet", [0, 0, 0, 0, 4]), ("flat", [0, 1, 1, 3, 3])])
def test_a_state_last_changed_when_it_was_last_told_until_now(info: str, lasts: list[int]) -> None:
    scenario = changing({"flat": "mid"}, {}, {"flat": "low"}, {"pet": "mid"})
    assert [scenario.last_change(info, now) for now in range(5)] == lasts


def test_a_state_that_no_update_tells_holds_from_the_start() -> None:
    scenario = changing({}, {})
    silent = [period.model_copy(update={"updates": {}}) for period in scenario.periods]
    unknown = scenario.model_copy(update={"periods": silent})
    assert unknown.last_change("pet", 2) == 0
    assert unknown.checks["2.0"].needs == ("pet@0",)
    assert unknown.facts["pet@0"].until is None


@given(changes=changes_of_lives)
def test_since_its_last_change_a_state_is_as_it_is_now(changes: list[dict[str, str]]) -> None:
    scenario = changing(*changes)
    for now, period in enumerate(scenario.periods):
        for info, value in period.state.items():
            last = scenario.last_change(info, now)
            assert info in scenario.periods[last].updates
            assert {scenario.periods[p].state[info] for p in range(last, now + 1)} == {value}
