"""Chat logs become histories by user, in sessions; questions of one's own are checked against them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.conversations.chat import By, read_histories, read_questions, task_of
from mnemotune.data.conversations.omissions import Omissions
from mnemotune.data.conversations.times import day_of, is_time, read_time, seconds_between
from mnemotune.data.task import TaskError
from talks import written

HOUR = 3600
START = 1_700_000_000


def line(name: str, text: str, *, hours: float = 0, **more: Any) -> dict[str, Any]:
    return {"id": name, "user": "mia", "role": "user", "content": text, "time": START + hours * HOUR, **more}


CHAT = [
    line("a", "I bought a canoe.", hours=1),
    line("b", "Lovely!", hours=1, role="assistant"),
    line("c", "The canoe leaks.", hours=30),
    line("d", "I play chess.", user="lee"),
]


def sessions(tmp_path: Path, *rows: Any, by: By = "user") -> tuple[dict[str, list[list[str]]], Omissions]:
    omissions = Omissions()
    histories = read_histories(written(tmp_path / "chat.jsonl", rows), omissions, by=by)
    return {h.group: [[u.text for u in s.utterances] for s in h.sessions] for h in histories}, omissions


def test_each_user_has_a_history_whose_sessions_end_where_people_are_silent_for_long(tmp_path: Path) -> None:
    found, _ = sessions(tmp_path, *CHAT)
    assert found == {"mia": [["I bought a canoe.", "Lovely!"], ["The canoe leaks."]], "lee": [["I play chess."]]}


def test_messages_come_in_the_order_of_their_times_and_one_without_stays_behind_the_one_before(tmp_path: Path) -> None:
    bare = {"user": "mia", "role": "user", "content": "And it is red."}
    found, _ = sessions(tmp_path, line("c", "Third.", hours=2), line("a", "First.", hours=1), bare)
    assert found == {"mia": [["First.", "And it is red.", "Third."]]}


def test_a_talk_that_begins_without_a_time_stands_where_its_first_time_is(tmp_path: Path) -> None:
    rows = [
        line("a", "It is in the cellar.", hours=1, session="jan"),
        {"id": "b", "user": "mia", "role": "assistant", "content": "Hi again!", "session": "mar"},
        line("c", "It is in the attic now.", hours=900, session="mar"),
        {"id": "d", "user": "mia", "role": "user", "content": "Bye.", "session": "end"},
    ]
    found, _ = sessions(tmp_path, *rows)
    assert found == {"mia": [["It is in the cellar."], ["Hi again!", "It is in the attic now."], ["Bye."]]}


def test_a_reply_outside_of_any_conversation_is_to_whom_the_line_before_it_is(tmp_path: Path) -> None:
    reply = {"id": "b", "role": "assistant", "content": "Lovely!"}
    found, _ = sessions(tmp_path, line("a", "I bought a canoe."), reply, line("c", "I play chess.", user="lee"))
    assert found == {"mia": [["I bought a canoe.", "Lovely!"]], "lee": [["I play chess."]]}


def test_ids_that_begin_anew_in_each_conversation_lose_nothing(tmp_path: Path) -> None:
    rows = [line(str(i), f"{user} {i}", user=user, session=user) for user in ("mia", "lee") for i in range(2)]
    omissions = Omissions()
    histories = read_histories(written(tmp_path / "chat.jsonl", rows), omissions)
    assert [[*history.places] for history in histories] == [["mia/0", "mia/1"], ["lee/0", "lee/1"]]
    assert omissions.broken == []
    asked = [{"question": "Who?", "answer": "lee", "evidence": ["0"], "user": "lee"}]
    with pytest.raises(TaskError, match="no message of lee has the id '0'; several have it, so write C"):
        read_questions(written(tmp_path / "questions.jsonl", asked), histories, omissions)


@pytest.mark.parametrize(
    ("session", "places"),
    [
        ({}, [["mia/0", "mia/1"], ["lee/0", "lee/1"]]),
        ({"session": 7}, [["mia/7/0", "mia/7/1"], ["lee/7/0", "lee/7/1"]]),
    ],
)
def test_ids_that_begin_anew_with_each_user_lose_nothing(
    tmp_path: Path, session: dict[str, Any], places: list[list[str]]
) -> None:
    rows = [line(str(i), f"{user} {i}", user=user, **session) for user in ("mia", "lee") for i in range(2)]
    omissions = Omissions()
    histories = read_histories(written(tmp_path / "chat.jsonl", rows), omissions)
    assert ([[*history.places] for history in histories], omissions.broken) == (places, [])


def test_a_line_whose_number_is_the_id_of_another_message_is_kept(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for number in range(1, 4):
        rows += [line(str(number), f"said {number}"), line("", f"replied {number}", role="assistant") | {"id": None}]
    omissions = Omissions()
    [history] = read_histories(written(tmp_path / "chat.jsonl", rows), omissions)
    assert [*history.places] == ["1", "line 2", "2", "4", "3", "6"]
    assert omissions.broken == []


def test_conversations_by_id_are_sessions_of_a_user_or_have_a_memory_of_their_own(tmp_path: Path) -> None:
    rows = [
        line("a", "One.", conversation="x"),
        line("b", "Two.", thread_id="y"),
        line("c", "Three.", conversation="x"),
    ]
    assert sessions(tmp_path, *rows)[0] == {"mia": [["One.", "Three."], ["Two."]]}
    assert sessions(tmp_path, *rows, by="conversation")[0] == {"x": [["One.", "Three."]], "y": [["Two."]]}


def test_users_whose_conversations_have_the_same_name_are_kept_apart(tmp_path: Path) -> None:
    rows = [line("a", "One.", session=1), line("b", "Two.", session=1, user="lee")]
    assert sessions(tmp_path, *rows)[0] == {"mia": [["One."]], "lee": [["Two."]]}
    assert sessions(tmp_path, *rows, by="conversation")[0] == {"mia 1": [["One."]], "lee 1": [["Two."]]}


@pytest.mark.parametrize(("by", "group"), [("user", "mia"), ("conversation", "x")])
def test_a_reply_that_names_no_user_is_of_whom_its_conversation_is(tmp_path: Path, by: By, group: str) -> None:
    reply = line("b", "Lovely!", role="assistant", conversation="x") | {"user": None}
    found, _ = sessions(tmp_path, line("a", "One.", conversation="x"), reply, by=by)
    assert found == {group: [["One.", "Lovely!"]]}


def test_where_nobody_is_named_each_conversation_is_a_user(tmp_path: Path) -> None:
    rows = [{"role": "user", "text": text, "session": name} for text, name in (("Hi.", "s1"), ("Yo.", "s2"))]
    assert sessions(tmp_path, *rows)[0] == {"s1": [["Hi."]], "s2": [["Yo."]]}
    assert sessions(tmp_path, {"speaker": "Bo", "text": "Hi."})[0] == {"user": [["Hi."]]}


def test_broken_lines_are_left_out_by_file_and_line_and_lose_nothing_else(tmp_path: Path) -> None:
    broken = ["{", "[]", line("x", 7), line("y", "x", time="soon"), line("z", "x", role="boss"), {"text": "x"}]  # type: ignore[arg-type]
    quiet = [line("s", "You are kind.", role="system"), line("e", " ")]
    found, omissions = sessions(tmp_path, *broken, *quiet, *CHAT, line("a", "Again."))
    assert found["mia"][0] == ["I bought a canoe.", "Lovely!"]
    places = [problem.split(": ", 2)[1:] for problem in omissions.broken]
    assert [place for place, _ in places] == [f"line {number}" for number in (1, 2, 3, 4, 5, 6, 13)]
    reasons = (
        "is not JSON",
        "must be an object",
        "content: must be",
        "time: 'soon' is no time",
        "'boss' is neither",
        "role: must",
    )
    assert all(reason in why for reason, (_, why) in zip(reasons, places, strict=False))
    assert "id: 'a' is that of" in places[-1][1]
    assert dict(omissions.passed_over) == {"messages of systems and tools": 1, "messages without a text": 1}


def test_a_log_without_a_message_is_refused_with_the_first_reason(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no message that somebody says; .*line 1: is not JSON"):
        sessions(tmp_path, "{")
    with pytest.raises(TaskError, match="line 1: is not JSON"):
        read_histories(written(tmp_path / "chat.jsonl", ["{"]), Omissions(strict=True))


def asked(tmp_path: Path, *rows: Any) -> tuple[dict[str, Any], list[str]]:
    omissions = Omissions()
    histories = read_histories(written(tmp_path / "chat.jsonl", CHAT), omissions)
    questions = read_questions(written(tmp_path / "questions.jsonl", rows), histories, omissions)
    tasks = {h.group: task_of(h, questions.get(h.group, ())) for h in histories}
    return tasks, [problem.split(": ", 1)[1] for problem in omissions.broken]


def test_a_question_is_asked_of_whose_message_has_the_answer_at_the_end_or_after_a_message(tmp_path: Path) -> None:
    tasks, broken = asked(
        tmp_path,
        {"question": "What leaks?", "answer": ["the canoe", "a canoe"], "evidence": ["c"], "kind": "time"},
        {"question": "What did Mia buy?", "answer": "a canoe", "evidence": "a", "after": "b", "reworded": "Bought?"},
        {"question": "Which cat has Lee?", "user": "lee"},
    )
    assert broken == []
    assert [(q.text, q.stage, q.kind) for q in tasks["mia"].questions] == [
        ("What did Mia buy?", 0, ""),
        ("What leaks?", 1, "time"),
    ]
    assert [(q.kind, q.answers) for q in tasks["lee"].questions] == [("abstention", ())]
    assert [check.topic for check in tasks["mia"].checks.values()] == ["", "time"]


def test_a_conversation_with_a_memory_of_its_own_is_asked_by_its_evidence_or_its_name(tmp_path: Path) -> None:
    rows = [line("a", "One.", conversation="x"), line("b", "Two.", conversation="y")]
    omissions = Omissions()
    histories = read_histories(written(tmp_path / "chat.jsonl", rows), omissions, by="conversation")
    asks = [
        {"question": "Which?", "answer": "two", "evidence": ["b"], "user": "mia"},
        {"question": "Where?", "user": "x"},
        {"question": "When?", "user": "mia"},
    ]
    questions = read_questions(written(tmp_path / "questions.jsonl", asks), histories, omissions)
    assert {group: [question.text for question in each] for group, each in questions.items()} == {
        "y": ["Which?"],
        "x": ["Where?"],
    }
    assert "line 3: user: say whose memory is asked" in omissions.broken[0]


def test_questions_without_an_id_have_one_that_no_other_has(tmp_path: Path) -> None:
    whole = {"question": "What leaks?", "answer": "the canoe", "evidence": ["c"]}
    rows = [whole | more for more in ({"id": 0}, {"id": 1}, {"id": "4"}, {}, {"id": None}, {"id": ""})]
    tasks, broken = asked(tmp_path, *rows)
    assert broken == []
    assert [question.id for question in tasks["mia"].questions] == ["0", "1", "4", "line 4", "5", "6"]


def test_a_question_that_cannot_be_asked_is_left_out_with_its_line_and_field(tmp_path: Path) -> None:
    whole = {"question": "What leaks?", "answer": "the canoe", "evidence": ["c"]}
    rows = [
        {"answer": "x"},
        whole | {"evidence": []},
        whole | {"evidence": ["nine"]},
        whole | {"evidence": ["c", "d"]},
        whole | {"user": "bob"},
        whole | {"answer": ""},
        whole | {"evidnce": ["c"]},
        {"question": "Which cat?"},
    ]
    tasks, broken = asked(tmp_path, whole, *rows)
    assert len(tasks["mia"].questions) == 1
    reasons = (
        "question: must be a text",
        "evidence: name the messages",
        "evidence: no message has the id 'nine'",
        "evidence: no message of mia has the id 'd'",
        "user: there is no 'bob' in the chat",
        "answer: must be a text",
        "evidnce: is no field of a question",
        "user: say whose memory is asked",
    )
    assert [problem.split(": ", 1)[0] for problem in broken] == [f"line {number}" for number in range(2, 10)]
    assert all(reason in problem for reason, problem in zip(reasons, broken, strict=True))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00"),
        ("2023/05/30 (Tue) 23:40", "2023-05-30T23:40:00"),
        ("2024-02-01T10:00:00+02:00", "2024-02-01T08:00:00"),
        ("2024-02-01T10:00:00Z", "2024-02-01T10:00:00"),
        (1_700_000_000, "2023-11-14T22:13:20"),
        (1_700_000_000_000, "2023-11-14T22:13:20"),
        ("1700000000.25", "2023-11-14T22:13:20.25"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007"),
    ],
)
def test_times_are_read_as_logs_write_them(given: Any, expected: str) -> None:
    assert read_time(given) == expected
    assert day_of(expected)
    assert is_time(expected)


def test_times_as_texts_are_in_their_own_order() -> None:
    ordered = [1_700_000_000, "1700000000.1", "1700000000.123456", 1_700_000_000_200, 1_700_000_001]
    times = [read_time(given) for given in ordered]
    assert times == sorted(times)
    assert seconds_between(times[0], times[2]) == pytest.approx(0.123456)


def test_messages_of_one_second_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    rows = [line(name, name, time=START + fraction) for name, fraction in (("c", 0.9), ("b", 0.25), ("a", 0))]
    assert sessions(tmp_path, *rows)[0] == {"mia": [["a", "b", "c"]]}


@pytest.mark.parametrize("given", ["soon", True, None, 1e300, [], "2023-13-01"])
def test_what_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="no time"):
        read_time(given)
