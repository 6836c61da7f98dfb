"""Exports of other tools are read in the shapes that they have: `messages` rows, ChatGPT's, LangSmith's."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from mnemotune.data.conversations.chat import read_histories
from mnemotune.data.conversations.logs import read_logs
from mnemotune.data.conversations.message import Logged
from mnemotune.data.conversations.omissions import Omissions
from talks import written


def node(name: str, parent: str | None, role: str, text: Any, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    message = {"id": name, "author": {"role": role}, "content": content, "create_time": 1_700_000_000.5, **more}
    return {"id": name, "parent": parent, "children": [], "message": message}


CHATGPT = {
    "title": "Boats",
    "create_time": 1_700_000_000.0,
    "conversation_id": "conv",
    "current_node": "d",
    "mapping": {
        "root": {"id": "root", "parent": None, "children": ["s"], "message": None},
        "s": node("s", "root", "system", ""),
        "a": node("a", "s", "user", "Is a canoe a boat?"),
        "b": node("b", "a", "assistant", "No."),  # an answer that was asked for again
        "t": node("t", "a", "assistant", "search()", recipient="browser"),
        "c": node("c", "t", "assistant", "Yes."),
        "d": node("d", "c", "user", "I own one."),
    },
}


def run(name: str, inputs: Any, outputs: Any, *, at: str, **more: Any) -> dict[str, Any]:
    metadata = {"thread_id": "th", "user_id": "mia"}
    return {
        "id": name,
        "run_type": "chain",
        "start_time": at,
        "inputs": inputs,
        "outputs": outputs,
        "extra": {"metadata": metadata},
        **more,
    }


def logged(tmp_path: Path, *rows: Any, name: str = "log.jsonl") -> tuple[list[Logged], Omissions]:
    omissions = Omissions()
    return list(read_logs(written(tmp_path / name, rows), omissions)), omissions


def said(messages: list[Logged]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


def test_a_row_of_messages_is_a_conversation(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "this."}]
    row = {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "tool", "content": "{}", "tool_call_id": "1"},
            {"role": "assistant", "content": "I see."},
            {"role": "pilot", "content": "?"},
        ],
        "metadata": {"user_id": "mia"},
        "created": 1_700_000_000,
        "id": "chatcmpl-1",
    }
    messages, omissions = logged(tmp_path, row)
    assert said(messages) == [("user", "See\nthis."), ("assistant", "I see.")]
    assert {(m.talk, m.user, m.time) for m in messages} == {("chatcmpl-1", "mia", "2023-11-14T22:13:20")}
    assert [problem.split(": ", 1)[1] for problem in omissions.broken] == [
        "line 1, message 5: role: 'pilot' is neither user nor assistant"
    ]


def test_chatgpts_export_gives_the_branch_that_was_shown_last(tmp_path: Path) -> None:
    messages, omissions = logged(tmp_path, CHATGPT, name="conversations.json")
    assert said(messages) == [("user", "Is a canoe a boat?"), ("assistant", "Yes."), ("user", "I own one.")]
    assert {(m.talk, m.user) for m in messages} == {("conv", "user")}
    assert [m.id for m in messages] == ["a", "c", "d"]
    assert (omissions.broken, sum(omissions.passed_over.values())) == ([], 2)


def test_messages_without_a_time_stay_behind_the_one_before_whenever_the_conversation_began(tmp_path: Path) -> None:
    begun, first, second = "2026-03-01T09:00:00", "2026-03-01T10:00:00", "2026-03-01T10:10:00"
    given = [("Hi.", None), ("One.", first), ("Two.", None), ("Three.", second), ("Four.", None)]
    spoken = [{"role": "user", "content": text, "time": time} for text, time in given]
    row = {"user": "mia", "created": begun, "messages": spoken}
    nodes = {
        f"n{place}": node(f"n{place}", f"n{place - 1}", "user", text, create_time=time)
        for place, (text, time) in enumerate(given)
    }
    exported = {"create_time": begun, "mapping": nodes}
    for each in (row, exported):
        messages, _ = logged(tmp_path, each)
        assert [message.time for message in messages] == [begun, first, "", second, ""]
        [history] = read_histories(tmp_path / "log.jsonl", Omissions())
        assert [[u.text for u in session.utterances] for session in history.sessions] == [[text for text, _ in given]]


ASKED, REPLIED = {"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yo."}
HUMAN = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}
BY_TYPE = [{"type": "human", "content": "Hi."}, {"type": "ai", "content": "Yo."}]


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"messages": [ASKED]}, {"choices": [{"message": REPLIED}]}),
        ({"messages": [[HUMAN | {"kwargs": {"content": "Hi."}}]]}, {"generations": [[{"text": "Yo."}]]}),
        ({"messages": [{"type": "human", "data": {"content": "Hi."}}]}, {"messages": BY_TYPE}),
        ({"input": "Hi."}, {"output": "Yo."}),
        (json.dumps({"question": "Hi."}), json.dumps({"answer": "Yo."})),
    ],
    ids=["openai", "constructor", "data", "texts", "as-json"],
)
def test_langsmiths_runs_are_read_in_the_forms_of_messages_that_they_have(
    tmp_path: Path, inputs: Any, outputs: Any
) -> None:
    messages, omissions = logged(tmp_path, run("r", inputs, outputs, at="2024-01-01T10:00:00"))
    assert (said(messages), omissions.broken) == ([("user", "Hi."), ("assistant", "Yo.")], [])
    assert {(m.talk, m.user, m.time) for m in messages} == {("th", "mia", "2024-01-01T10:00:00")}


def test_a_table_of_runs_holds_objects_as_json(tmp_path: Path) -> None:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    row = run("r", json.dumps({"input": "Hi."}), json.dumps({"output": "Yo."}), at="2024-01-01")
    table = pyarrow.Table.from_pylist([row | {"extra": json.dumps(row["extra"]), "start_time": at}])
    pyarrow.parquet.write_table(table, tmp_path / "runs.parquet")
    messages = list(read_logs(tmp_path / "runs.parquet", Omissions()))
    assert said(messages) == [("user", "Hi."), ("assistant", "Yo.")]
    assert {(m.talk, m.user, m.time) for m in messages} == {("th", "mia", "2024-01-01T00:00:00")}


def test_langchains_short_forms_are_messages_and_an_odd_one_is_left_out_alone(tmp_path: Path) -> None:
    rows = [
        run("a", {"messages": [["user", "Hi."]]}, {"output": "Yo."}, at="2024-01-01"),
        run("b", {"messages": ["Canoe?"]}, {"output": "No."}, at="2024-01-02"),
        run("c", {"messages": [], "question": "Well?"}, {"output": "Hm."}, at="2024-01-03"),
        run("d", {"messages": [{"role": "user", "content": "Bye."}, {"type": "remove"}]}, {}, at="2024-01-04"),
    ]
    messages, omissions = logged(tmp_path, *rows)
    assert [text for _, text in said(messages)] == ["Hi.", "Yo.", "Canoe?", "No.", "Well?", "Hm.", "Bye."]
    [broken] = omissions.broken
    assert "line 4, message 1: role: 'remove'" in broken


def test_what_was_said_twice_is_kept_and_side_calls_do_not_bring_back_what_was_said(tmp_path: Path) -> None:
    def turns(*texts: str) -> dict[str, Any]:
        return {"messages": [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]}

    rows = [
        run("a", turns("Morning."), {"output": "Hi, Mia! "}, at="2024-01-01"),
        run("b", turns("Make a title."), {"output": "Title"}, at="2024-01-02"),
        run("c", turns("Morning.", "Hi, Mia!", "Any news?"), {"output": "None."}, at="2024-01-03"),
        run("d", turns("Morning."), {"output": "Hi, Mia!"}, at="2024-01-04"),
    ]
    messages, _ = logged(tmp_path, *rows)
    texts = [text.strip() for _, text in said(messages)]
    assert texts == ["Morning.", "Hi, Mia!", "Make a title.", "Title", "Any news?", "None.", "Morning.", "Hi, Mia!"]


def test_what_a_run_repeats_of_those_before_it_comes_once(tmp_path: Path) -> None:
    def turn(role: str, text: str) -> dict[str, str]:
        return {"role": role, "content": text}

    first, reply, second = turn("user", "Hi."), turn("assistant", "Yo."), turn("user", "Hi.")
    whole = run("r2", {"messages": [first, reply, second]}, {"output": "Again?"}, at="2024-01-01T10:05:00")
    begun = run("r1", {"messages": [first]}, {"output": "Yo."}, at="2024-01-01T10:00:00")
    inner = run("r3", {"input": "x"}, {"output": "y"}, at="2024-01-01T10:01:00", parent_run_id="r2")
    messages, omissions = logged(tmp_path, {"runs": [whole, inner, begun]}, name="runs.json")
    assert said(messages) == [("user", "Hi."), ("assistant", "Yo."), ("user", "Hi."), ("assistant", "Again?")]
    assert len({m.id for m in messages}) == 4
    assert dict(omissions.passed_over) == {"runs inside other runs": 1}


@pytest.mark.parametrize("thoughts", ["", "<think>Hm.</think>\n"])
def test_what_is_put_around_the_talk_does_not_bring_back_what_was_said(tmp_path: Path, thoughts: str) -> None:
    """A question comes with what was looked up for it, or the newest messages are given alone, after a date."""
    rows, talk, asked = list[Any](), list[dict[str, str]](), list[str]()
    for number in range(5):
        asked.append(f"Context {number}. Question {number}?")
        dated = {"role": "user", "content": f"It is day {number}."}
        given = [dated, *talk[-3:], {"role": "user", "content": asked[-1]}]
        reply = {"role": "assistant", "content": f"{thoughts}Answer {number}."}
        rows.append(
            run(f"r{number}", {"messages": given}, {"choices": [{"message": reply}]}, at=f"2024-01-0{number + 1}")
        )
        talk += [
            {"role": "user", "content": f"Question {number}?"},
            {"role": "assistant", "content": f"Answer {number}."},
        ]
    messages, omissions = logged(tmp_path, *rows)
    texts = [text for _, text in said(messages)]
    assert texts == ["It is day 0.", *(text for i in range(5) for text in (asked[i], f"Answer {i}."))]
    assert omissions.broken == []


def test_a_reply_as_short_as_another_one_hides_no_message_of_a_run_that_is_missing(tmp_path: Path) -> None:
    def turns(*texts: str) -> dict[str, Any]:
        return {"messages": [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]}

    talk = ["I have a cat.", "Noted.", "I moved.", "Noted.", "What is new?"]
    first = run("a", turns(talk[0]), {"output": talk[1]}, at="2024-01-01")
    third = run("c", turns(*talk), {"output": "Rome."}, at="2024-01-03")
    assert [text for _, text in said(logged(tmp_path, first, third)[0])] == [*talk, "Rome."]


def test_a_run_that_is_missing_brings_nothing_back_of_the_later_ones(tmp_path: Path) -> None:
    """All replies are alike, and each question comes with what was looked up for it."""
    rows, talk = list[Any](), list[dict[str, str]]()
    for number in range(12):
        question, reply = {"role": "user", "content": f"Question {number}?"}, {"role": "assistant", "content": "Noted."}
        asked = {"role": "user", "content": f"Context. {question['content']}"}
        outputs = {"choices": [{"message": reply}]}
        at = f"2024-01-{number + 1:02}"
        rows += [run(f"r{number}", {"messages": [*talk, asked]}, outputs, at=at)] if number != 2 else []
        talk += [question, reply]
    texts = [text for _, text in said(logged(tmp_path, *rows)[0])]
    assert len(texts) == 24
    assert [text for text in texts if "Question 2?" in text] == ["Question 2?"]


def test_a_request_that_was_kept_with_its_reply_has_both(tmp_path: Path) -> None:
    """OpenAI's stored completions."""
    asked, replied = {"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yo."}
    for messages in ([asked], [asked, replied]):
        row = {"messages": messages, "choices": [{"message": replied}]}
        assert said(logged(tmp_path, row)[0]) == [("user", "Hi."), ("assistant", "Yo.")]
    alike = {"messages": [asked], "choices": [{"message": replied | {"content": "Hi."}}]}
    assert said(logged(tmp_path, alike)[0]) == [("user", "Hi."), ("assistant", "Hi.")]


def test_a_run_without_a_message_is_left_out_by_its_line(tmp_path: Path) -> None:
    good = run("r1", {"input": "Hi."}, {"output": "Yo."}, at="2024-01-01")
    messages, omissions = logged(tmp_path, run("r0", {}, {}, at="2024-01-01"), good)
    assert len(messages) == 2
    assert omissions.broken == [f"{tmp_path}/log.jsonl: line 1: inputs, outputs: hold no message"]


def test_a_mark_of_the_byte_order_at_the_beginning_of_a_file_is_no_part_of_it(tmp_path: Path) -> None:
    row = {"messages": [{"role": "user", "content": "Hi."}]}
    for name, text in (("log.json", json.dumps([row])), ("log.jsonl", json.dumps(row) + "\n")):
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert said(list(read_logs(tmp_path / name, Omissions()))) == [("user", "Hi.")]
