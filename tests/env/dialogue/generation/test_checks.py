"""What a reply of each stage must be.

A good reply is taken apart; every mistake in a bad one is told, so that the model can mend all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.dialogue.generation import checks as c
from mnemotune.env.dialogue.generation.plan import GenerationPlan
from mnemotune.policies.replies import ReplyError

PLAN = GenerationPlan(
    questions=2, states_per_question=2, choices_per_state=2, changes_per_period=2, changes_per_state=2, min_variants=2
)
SCHEMA = {"pace": ("slow", "fast"), "place": ("at_home", "outside"), "money": ("little", "plenty"), "time": ("1", "2")}
STATE = {"pace": "slow", "place": "at_home", "money": "little", "time": "1"}
DRAFTS = [
    c.Draft("How?", {"pace": ("slow", "fast"), "place": ("at_home", "outside")}),
    c.Draft("Where?", {"speed": ("slow", "fast"), "money": ("little", "plenty")}),
]
EVENTS = [c.LifeEvent(("pace",), "A race."), c.LifeEvent(("place", "money"), "A move.")]
VARIANTS = [("slow", "at_home"), ("fast", "at_home")]


def info(name: Any, *choices: Any) -> dict[str, Any]:
    return {"info_type": name, "info_choices": list(choices)}


GOOD: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "person": (c.check_person, {"name": "Ann Lee", "profile": "Quiet."}),
    "drafts": (
        lambda reply: c.check_drafts(reply, PLAN),
        {
            "questions": [
                {"question": "How?", "required_info": [info("pace", "slow", "fast"), info("place", "home", "out")]},
                {"question": "Where?", "required_info": [info("speed", "slow", "fast"), info("money", "few", "many")]},
            ]
        },
    ),
    "merge": (
        lambda reply: c.check_merge(reply, DRAFTS),
        {"pace": ["pace", "speed"], "place": ["place"], "money": ["money"]},
    ),
    "choices": (
        lambda reply: c.check_choices(reply, ["pace", "place"], PLAN),
        {"pace": ["slow", "fast"], "place": ["home", "out"]},
    ),
    "initial": (lambda reply: c.check_initial(reply, SCHEMA), STATE),
    "change": (
        lambda reply: c.check_change(reply, STATE, SCHEMA, changed={"time": 2}, plan=PLAN),
        {"period_summary": "A move.", "updated": {"pace": "fast", "place": "outside"}},
    ),
    "events": (
        lambda reply: c.check_events(reply, ["pace", "place"]),
        {"events": [{"states": ["pace"], "event": "A race."}, {"states": ["place"], "event": "A move."}]},
    ),
    "answers": (
        lambda reply: c.check_answers(reply, VARIANTS),
        {"answers": [{"variant": 2, "answer": "Run."}, {"variant": "1", "answer": "Walk."}]},
    ),
    "new_answer": (
        lambda reply: c.check_new_answer(reply, VARIANTS[0], ["Run."]),
        {"new_answer": "Walk."},
    ),
    "first_queries": (
        lambda reply: c.check_first_queries(reply, STATE, once=True),
        {
            "queries": [
                {"exposed_states": {"pace": "slow", "place": "at_home"}, "query": "I stroll in my flat."},
                {"exposed_states": {"money": "little", "time": "1"}, "query": "I am poor and busy."},
            ]
        },
    ),
    "queries": (
        lambda reply: c.check_queries(reply, EVENTS),
        {"queries": [{"event": 2, "query": "We moved."}, {"event": 1, "query": "I race."}]},
    ),
    "new_query": (c.check_new_query, {"new_query": "I race."}),
}


def changed(name: str, *path: Any, value: Any = ..., drop: bool = False) -> Any:
    """Return a good reply with one value replaced, or taken out."""
    reply = deepcopy(GOOD[name][1])
    inner = reply
    for step in path[:-1]:
        inner = inner[step]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return reply


def refused(name: str, reply: Any) -> str:
    with pytest.raises(ReplyError) as error:
        GOOD[name][0](reply)
    return str(error.value)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_reply_is_taken(name: str) -> None:
    check, reply = GOOD[name]
    assert check(reply) is not None


def test_what_a_good_reply_says() -> None:
    def value(name: str) -> Any:
        return GOOD[name][0](GOOD[name][1])

    assert value("merge") == {"pace": "pace", "speed": "pace", "place": "place", "money": "money"}
    assert value("answers") == ["Walk.", "Run."]
    assert value("queries") == ["I race.", "We moved."]
    assert value("change") == c.PeriodChange("A move.", {"pace": "fast", "place": "outside"})
    assert value("first_queries")[0] == c.Opening({"pace": "slow", "place": "at_home"}, "I stroll in my flat.")


@pytest.mark.parametrize(
    ("name", "reply", "told"),
    [
        ("person", {"name": "Ann"}, '"profile" must be a text, not nothing'),
        ("person", {"name": " ", "profile": 3}, '"name" is empty'),
        ("person", {"name": "x" * 101, "profile": "y"}, "has 101 characters; 100 are the most"),
        ("drafts", {}, '"questions" must be a list'),
        ("drafts", {"questions": []}, "there are 0 questions; 2 are wanted"),
        ("drafts", changed("drafts", "questions", 1, drop=True), "there are 1 questions; 2 are wanted"),
        ("drafts", changed("drafts", "questions", 1, "question", value="How?"), "questions: How? more than once"),
        ("drafts", changed("drafts", "questions", 0, "question", value=""), 'question 1: "question" is empty'),
        ("drafts", changed("drafts", "questions", 0, value={}), 'question 1: "question" must be a text'),
        ("drafts", changed("drafts", "questions", 0, "required_info", 0, drop=True), "1 info types; 2 are wanted"),
        (
            "drafts",
            changed("drafts", "questions", 0, "required_info", 1, "info_type", value="pace"),
            "question 1: info types: pace more than once",
        ),
        (
            "drafts",
            changed("drafts", "questions", 0, "required_info", 1, "info_choices", value=["home"]),
            "question 1, place has 1 choices; 2 are wanted",
        ),
        (
            "drafts",
            changed("drafts", "questions", 0, "required_info", 1, "info_choices", value=["home", "home"]),
            "question 1, place: choices: home more than once",
        ),
        (
            "drafts",
            changed("drafts", "questions", 0, "required_info", 1, "info_choices", value=["home", ""]),
            "question 1, place: choice 2 is empty",
        ),
        (
            "drafts",
            changed("drafts", "questions", 0, "required_info", 1, "info_choices", value=["home", 2]),
            "question 1, place: choice 2 must be a text, not 2",
        ),
        ("merge", changed("merge", "place", drop=True), "old info types: place missing"),
        ("merge", changed("merge", "place", value=["place", "mood"]), "old info types: mood not asked for"),
        ("merge", changed("merge", "place", value=["place", "pace"]), "old info types: pace more than once"),
        ("merge", {"a": ["pace", "place"], "b": ["speed", "money"]}, "question 1: its info types all became a"),
        ("merge", changed("merge", "place", value="place"), "place must be a list"),
        ("merge", changed("merge", "empty", value=[]), "empty stands for no info type"),
        ("choices", changed("choices", "place", drop=True), "info types: place missing"),
        ("choices", changed("choices", "mood", value=["a", "b"]), "info types: mood not asked for"),
        ("choices", changed("choices", "place", value=["a", "b", "c"]), "place has 3 choices; 2 are wanted"),
        ("choices", changed("choices", "place", value=["a", "a"]), "place: choices: a more than once"),
        ("initial", changed("initial", "pace", drop=True), "properties: pace missing"),
        ("initial", changed("initial", "mood", value="good"), "properties: mood not asked for"),
        ("initial", changed("initial", "pace", value="medium"), "medium is no value of pace; slow, fast are"),
        ("initial", changed("initial", "pace", value=None), "nothing is no value of pace"),
        ("change", changed("change", "period_summary", value=""), '"period_summary" is empty'),
        ("change", changed("change", "updated", value={}), "0 properties change; from 1 to 3 may"),
        ("change", changed("change", "updated", value=["pace"]), '"updated" must be an object, not a list'),
        ("change", changed("change", "updated", "mood", value="good"), "mood is no property; change others"),
        ("change", changed("change", "updated", "pace", value="slow"), "pace has the value slow already"),
        ("change", changed("change", "updated", "pace", value="medium"), "medium is no value of pace"),
        ("change", changed("change", "updated", "time", value="2"), "time changed 2 times or more already"),
        ("events", {"events": []}, "pace, place missing"),
        ("events", changed("events", "events", 1, drop=True), "properties of the events: place missing"),
        ("events", changed("events", "events", 1, "states", value=["place", "pace"]), "pace more than once"),
        ("events", changed("events", "events", 1, "states", value=["place", "money"]), "money not asked for"),
        ("events", changed("events", "events", 1, "states", value=[]), "event 2 changes no property"),
        ("events", changed("events", "events", 1, "event", value=None), 'event 2: "event" must be a text'),
        ("answers", changed("answers", "answers", 1, drop=True), "variant 1 has no answer"),
        ("answers", changed("answers", "answers", 1, "variant", value=2), "variant 2 has more than one answer"),
        ("answers", changed("answers", "answers", 1, "variant", value=3), "3 is no variant; 1 to 2 are"),
        ("answers", changed("answers", "answers", 1, "variant", value=True), "True is no variant"),
        ("answers", changed("answers", "answers", 1, "answer", value="Run."), "answers: Run. more than once"),
        ("answers", changed("answers", "answers", 1, "answer", value="Stay at home."), "names the value at_home"),
        ("answers", changed("answers", "answers", 1, "answer", value="See at_home!"), "names the value at_home"),
        ("new_answer", {"new_answer": "Run."}, "the same as another situation's"),
        ("new_answer", {"new_answer": "At-home!"}, "names the value at_home"),
        ("new_answer", {"answer": "Walk."}, '"new_answer" must be a text'),
        ("first_queries", changed("first_queries", "queries", 1, drop=True), "no message tells money"),
        (
            "first_queries",
            changed("first_queries", "queries", 0, "exposed_states", "pace", value="fast"),
            "message 1: pace is slow, not fast",
        ),
        (
            "first_queries",
            changed("first_queries", "queries", 0, "exposed_states", "mood", value="good"),
            "message 1: mood is no property",
        ),
        (
            "first_queries",
            changed("first_queries", "queries", 0, "exposed_states", value={}),
            "message 1 tells 0 properties; 1 to 3 are wanted",
        ),
        (
            "first_queries",
            {"queries": [{"exposed_states": STATE, "query": "All of it."}]},
            "message 1 tells 4 properties; 1 to 3 are wanted",
        ),
        (
            "first_queries",
            changed("first_queries", "queries", 0, "exposed_states", "time", value="1"),
            "told properties: time more than once",
        ),
        ("first_queries", changed("first_queries", "queries", 0, "query", value=" \n"), 'message 1: "query" is empty'),
        ("queries", changed("queries", "queries", 1, drop=True), "event 1 has no message"),
        ("queries", changed("queries", "queries", 1, "event", value=0), "0 is no event; 1 to 2 are"),
        ("queries", changed("queries", "queries", 1, "query", value="We moved."), "messages: We moved. more than once"),
        ("new_query", {}, '"new_query" must be a text'),
    ],
)
def test_a_bad_reply_is_refused_with_the_reason(name: str, reply: Any, told: str) -> None:
    assert told in refused(name, reply)


def test_all_mistakes_are_told_but_no_endless_list_of_them() -> None:
    told = refused("initial", {"pace": "medium", "mood": "good"})
    assert told.splitlines() == [
        "- properties: place, money, time missing",
        "- properties: mood not asked for",
        "- values: medium is no value of pace; slow, fast are",
    ]
    many = refused("answers", {"answers": [{"variant": n, "answer": ""} for n in range(100, 900)]})
    assert len(many.splitlines()) == 13
    assert many.endswith("more")


def test_what_a_model_says_is_safe_to_show() -> None:
    told = refused("initial", {**STATE, "\x1b[31mred\n- lies": "x", "pace": "fast\x07"})
    assert told.splitlines() == [
        "- properties: [31mred - lies not asked for",
        "- values: fast is no value of pace; slow, fast are",
    ]


def test_a_state_that_is_used_up_may_change_when_too_few_others_are_left() -> None:
    reply = {"period_summary": "Again.", "updated": {"time": "2"}}
    most = {"pace": 2, "place": 2, "money": 2, "time": 2}
    assert c.check_change(reply, STATE, SCHEMA, changed=most, plan=PLAN).updated == {"time": "2"}


def test_states_may_also_be_given_with_their_values() -> None:
    reply = {"events": [{"states": {"pace": "fast", "place": "outside"}, "event": "A move."}]}
    assert c.check_events(reply, ["pace", "place"]) == [c.LifeEvent(("pace", "place"), "A move.")]


def test_a_message_may_tell_twice_when_it_need_not_be_once() -> None:
    reply = changed("first_queries", "queries", 0, "exposed_states", "time", value="1")
    assert len(c.check_first_queries(reply, STATE, once=False)) == 2


@pytest.mark.parametrize(
    ("text", "value", "told"),
    [
        ("Ride slowly.", "slow", False),
        ("Ride slow.", "slow", False),
        ("Ride VERY slow.", "very_slow", True),
        ("Take 5 hours weekly.", "5_hours_weekly", True),
        ("Take 5_hours_weekly.", "5_hours_weekly", True),
        ("Weekly, five hours.", "5_hours_weekly", False),
        ("In 2 days.", "2", False),
        ("每周五小时就够", "每周五小时", True),
        ("每周六小时就够", "每周五小时", False),
        ("每周", "每周", False),
        ("Einmal wöchentlich genügt.", "wöchentlich", False),
        ("Ein Cafétéria-Besuch.", "café", False),
        ("Zweimal täglich reicht.", "zweimal_täglich", True),
        ("Zweimal tägliche Gabe.", "zweimal_täglich", False),
        ("Дважды в день.", "дважды_в_день", True),
        ("हिन्दी में बोलो।", "हिन्दी", False),
        ("re\u0301sume\u0301", "re\u0301sume\u0301", False),
        ("Ost/Süd liegt gut.", "Ost/Süd", True),
        ("Das kostet 5 €.", "5 €", False),
        ("吃twice daily的药", "twice_daily", True),
        ("A.*b", ".*", False),
        ("say (not any) now", "(not any)", True),
    ],
)
def test_a_value_in_an_answer_gives_it_away(text: str, value: str, told: bool) -> None:
    assert c.giveaways(text, [value]) == ([value] if told else [])


@pytest.mark.parametrize(
    "reply", ['{"answer": 2}', '{"answer": "2"}', "2", "Answer 2.", '```json\n{"answer": 2.0}\n```']
)
def test_a_verdict_is_read_leniently(reply: str) -> None:
    assert c.read_number(reply, 3) == 2


@pytest.mark.parametrize("reply", ["", "1 or 2", '{"answer": 4}', '{"answer": 0}', '{"answer": null}', "two", "²"])
def test_a_verdict_that_names_no_number_is_not_guessed(reply: str) -> None:
    with pytest.raises(ReplyError, match="names no number from 1 to 3"):
        c.read_number(reply, 3)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", GOOD)
@given(data=st.data())
def test_no_reply_breaks_a_check(name: str, data: st.DataObject) -> None:
    """It is taken, or refused with a reason."""
    check, good = GOOD[name]
    reply = deepcopy(good)
    inner = reply
    while isinstance(inner, dict | list) and inner:
        key = data.draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
        if data.draw(st.booleans()):
            inner[key] = data.draw(ANYTHING)
            break
        inner = inner[key]
    told = "- "
    try:
        check(reply)
    except ReplyError as error:
        told = str(error)
    assert all(line.startswith("- ") for line in told.split("\n"))
