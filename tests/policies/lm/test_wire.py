"""What clients ask for, read from JSON, and the form that a reply is given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from mnemotune.policies.forms import ANY_OBJECT, ReplyForm
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.base import ToolCall
from mnemotune.policies.lm.tool_texts import calls_text, tools_in
from mnemotune.policies.lm.wire import MOST_TEXTS, ApiError, Chat, Embeddings, read_request

HELLO = [{"role": "user", "content": "I own a small boat. Where shall I go?"}]
CHAT = {"model": "embedded", "messages": HELLO}


def chat(**fields: Any) -> Chat:
    return read_request(Chat, json.dumps(CHAT | fields).encode())


def refused(kind: type[Chat] | type[Embeddings], body: object) -> ApiError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ApiError) as caught:
        read_request(kind, data)
    assert caught.value.status == 400
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    return caught.value


# What is read


def test_the_parts_of_a_message_are_put_together_and_a_developer_is_the_system() -> None:
    parts = [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]
    messages = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": parts, "name": "Ann"},
        {"role": "assistant", "content": "Hi", "tool_calls": None},
        {"role": "user", "content": ""},
    ]
    said = [Message("system", "Be kind."), Message("user", "Hello there"), Message("assistant", "Hi")]
    assert chat(messages=messages).conversation == (*said, Message("user", ""))


def test_tool_calls_and_their_results_are_read() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "boats"}'}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "None."},
    ]
    said = Message("assistant", "", (ToolCall("c1", "search", '{"q": "boats"}'),))
    assert chat(messages=messages).conversation == (said, Message("tool", "None.", tool_call_id="c1"))


NOTE = {"name": "note", "parameters": {"properties": {"text": {"type": "string"}}, "required": ["text"]}}
OTHER = {"name": "other"}


def tools_of(*functions: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": function} for function in functions]


@pytest.mark.parametrize(
    "choice",
    [
        {"tools": tools_of(NOTE), "tool_choice": "required"},
        {"tools": tools_of(OTHER, NOTE), "tool_choice": {"type": "function", "function": {"name": "note"}}},
    ],
)
def test_a_tool_that_is_to_be_called_gets_what_was_said_as_its_arguments(choice: dict[str, Any]) -> None:
    calls = chat(**choice).called("A boat.")
    assert calls == (ToolCall("call_1_note", "note", '{"text": "A boat."}'),)
    assert chat(**choice).shaped("A boat.", calls) == ('{"text": "A boat."}', "tool_calls")


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_a_tool_that_may_be_called_is_not_called(choice: str | None) -> None:
    assert chat(tools=tools_of(NOTE), tool_choice=choice).called("A boat.") == ()


def test_a_tool_that_has_to_be_called_among_several_is_the_first_unless_the_model_calls_another() -> None:
    body = chat(tools=tools_of(NOTE, OTHER), tool_choice="required")
    assert [call.name for call in body.called("A boat.")] == ["note"]
    assert [call.name for call in body.called(calls_text([("other", {})]))] == ["other"]


@pytest.mark.parametrize("choice", [None, "auto", "required"])
def test_calls_that_a_model_makes_keep_to_the_tools_schemas_and_have_ids_of_their_own(choice: str | None) -> None:
    text = calls_text([("note", {"text": "A boat."}), ("note", {"text": "A dog.", "more": 1}), ("unknown", {})])
    calls = chat(tools=tools_of(NOTE), tool_choice=choice).called(text)
    assert [call.arguments for call in calls] == ['{"text": "A boat."}', '{"text": "A dog."}']
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize(("choice", "offered"), [(None, 2), ("auto", 2), ("required", 2), ("none", 0)])
def test_the_model_reads_of_the_tools_that_it_may_call_in_a_message_of_their_own(choice: str, offered: int) -> None:
    body = chat(tools=tools_of(NOTE, OTHER), tool_choice=choice)
    assert len(tools_in(body.conversation[-1])) == offered
    assert body.conversation[: len(body.said)] == body.said


@pytest.mark.parametrize(("tools", "choice"), [([NOTE], {"function": {"name": "search"}}), ([], "required")])
def test_a_choice_of_tools_that_cannot_be_made_is_refused(tools: list[dict[str, Any]], choice: Any) -> None:
    assert "tool_choice" in str(refused(Chat, asked_with(tools=tools_of(*tools), tool_choice=choice)))


def test_arguments_without_an_end_are_refused_with_the_tool() -> None:
    endless = {"name": "f", "parameters": {"properties": {"a": {"$ref": "#/properties/a"}}}}
    with pytest.raises(ApiError, match=r"^tools\[1\]\.function\.parameters: no reply can keep to it"):
        chat(tools=tools_of(NOTE, endless), tool_choice={"function": {"name": "f"}}).called("A boat.")


def test_what_changes_nothing_is_ignored() -> None:
    harmless = {"seed": 1, "top_p": 0.5, "user": "Ann", "tools": [], "logprobs": False, "audio": None, "n": None}
    assert chat(**harmless).conversation == chat().conversation


def test_one_text_is_a_list_of_one() -> None:
    assert read_request(Embeddings, b'{"model": "lexical", "input": "a"}').input == ["a"]
    assert chat(stop="a").stop == ["a"]


# The form of a reply


@pytest.mark.parametrize(
    ("limits", "text", "finish"),
    [
        ({"stop": "three"}, "one two ", "stop"),
        ({"stop": ["five", "two"]}, "one ", "stop"),
        ({"stop": ["nothing of it"]}, "one two three four five", "stop"),
        ({"max_tokens": 2}, "one two ", "length"),
        ({"max_completion_tokens": 1, "max_tokens": 9}, "one ", "length"),
        ({"max_tokens": 6}, "one two three four five", "stop"),
        ({"max_tokens": 2, "stop": " two"}, "one", "stop"),
        ({"max_tokens": 1, "stop": "five"}, "one ", "length"),
    ],
)
def test_a_reply_ends_at_a_stop_or_where_it_is_long_enough(limits: dict[str, Any], text: str, finish: str) -> None:
    assert chat(**limits).shaped("one two three four five") == (text, finish)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('```json\n{"a": [1, "ü"]}\n```', {"a": [1, "ü"]}),
        ('Here it is: {"a": 1}. Fine?', {"a": 1}),
        ("plain \ntalk", {"reply": "plain \ntalk"}),
        ("[1, 2]", {"reply": "[1, 2]"}),
    ],
)
def test_in_json_mode_the_reply_is_a_json_object(said: str, told: object) -> None:
    asked = chat(response_format={"type": "json_object"})
    assert asked.form == ANY_OBJECT
    text, _ = asked.shaped(said)
    assert json.loads(text) == told


def test_otherwise_the_reply_is_what_was_said() -> None:
    for asked in (chat(), chat(response_format={"type": "text"}), chat(response_format=None)):
        assert asked.form is None
        assert asked.shaped('Fine: {"a": 1}') == ('Fine: {"a": 1}', "stop")


def test_with_a_json_schema_the_reply_keeps_to_it() -> None:
    schema = {"type": "object", "properties": {"where": {"type": "string"}, "what": {"enum": ["car", "boat"]}}}
    named = {"name": "trip", "strict": True, "schema": schema}
    asked = chat(response_format={"type": "json_schema", "json_schema": named})
    assert asked.form == ReplyForm.of("reply", schema)
    text, _ = asked.shaped('{"where": "home", "why": "rain"}')
    assert json.loads(text) == {"where": "home", "what": "boat"}
    assert json.loads(asked.shaped("Go home.")[0]) == {"where": "Go home.", "what": "boat"}


# Refusals


def asked_with(**fields: Any) -> dict[str, Any]:
    return CHAT | fields


def message_with(**fields: Any) -> dict[str, Any]:
    return CHAT | {"messages": [*HELLO, {"role": "user", "content": "x"} | fields]}


def schema_of(schema: Any) -> dict[str, Any]:
    return asked_with(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": HELLO}, "model"),
        ({"model": "embedded"}, "messages"),
        (asked_with(messages=[]), "messages"),
        (asked_with(messages="hello"), "messages"),
        (asked_with(tools=[{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name"),
        (asked_with(tools=[{"type": "custom"}]), "tools[0].type"),
        (asked_with(functions=[{"name": "f"}]), "functions"),
        (asked_with(audio={"voice": "alloy", "format": "wav"}), "audio"),
        (asked_with(modalities=["text", "audio"]), "modalities[1]"),
        (asked_with(logprobs=True), "logprobs"),
        (asked_with(top_logprobs=3), "top_logprobs"),
        (asked_with(temperature=3), "temperature"),
        (asked_with(n=0), "n"),
        (asked_with(max_tokens=0), "max_tokens"),
        (asked_with(stop=["a", "b", "c", "d", "e"]), "stop"),
        (asked_with(stop=""), "stop[0]"),
        (asked_with(stream="often"), "stream"),
        (asked_with(response_format={"type": "xml"}), "response_format.type"),
        (asked_with(response_format={"type": "json_schema"}), "response_format"),
        (schema_of(None), "response_format.json_schema.schema"),
        (message_with(role="tool"), "messages[1]"),
        (message_with(tool_call_id="c1"), "messages[1]"),
        (message_with(role="robot"), "messages[1].role"),
        (message_with(content=None), "messages[1]"),
        (message_with(content=[{"type": "image_url", "image_url": {"url": "x"}}]), "messages[1].content[0].type"),
        (message_with(content=[{"type": "input_audio"}]), "messages[1].content[0].type"),
        (message_with(role="assistant", tool_calls=[{"id": "1"}]), "messages[1].tool_calls[0].function"),
        (message_with(tool_calls=[{"id": "1", "function": {"name": "f", "arguments": "{}"}}]), "messages[1]"),
        (message_with(role="assistant", function_call={"name": "f"}), "messages[1].function_call"),
        (message_with(role="assistant", audio={"id": "1"}), "messages[1].audio"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_field_at_fault(body: object, param: str) -> None:
    error = refused(Chat, body)
    assert error.param == param
    assert str(error).startswith(f"{param}: ")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": [[1, 2]]}, "input[0]"),
        ({"input": ["a"] * (MOST_TEXTS + 1)}, "input"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ],
)
def test_embeddings_that_cannot_be_made_are_refused_too(fields: dict[str, Any], param: str) -> None:
    assert refused(Embeddings, {"model": "lexical"} | fields).param == param


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'"\\ud83d"', b"[" * 100_000])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    for kind in (Chat, Embeddings):
        assert str(refused(kind, body)).startswith("the request: ")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Chat, {"messages": [1] * 1000}),
        (Chat, {"messages": [{"role": "user", "content": [1] * 1000}]}),
        (Chat, {"messages": HELLO, "stop": [1] * 1000}),
        (Chat, {"messages": HELLO, "modalities": [1] * 1000}),
        (Embeddings, {"input": [1] * 1000}),
    ],
)
def test_many_mistakes_take_no_more_memory_than_one(kind: type[BaseModel], fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate({"model": "embedded"} | fields)
    assert caught.value.error_count() == 1
