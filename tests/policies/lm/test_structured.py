"""How a server is asked for structured replies, and what happens when it does not take that form."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest

from mnemotune.policies.forms import (
    ANY_OBJECT,
    NUMBER,
    TEXT,
    ReplyForm,
    choice_form,
    items,
    mapping,
    number_form,
    record,
    some_of,
)
from mnemotune.policies.lm import LanguageModel, Message, Metered, Refused, Request
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.client import ClientModel

if TYPE_CHECKING:
    from .conftest import Connect, ScriptedServer

HELLO = (Message("user", "Hello"),)
ANSWER = Request(HELLO, "answer", form=number_form(3))
NOTES = Request(HELLO, "write", form=ReplyForm.of("notes", mapping(TEXT)))
SCHEMA, OBJECT = '"type": "json_schema"', '"type": "json_object"'
NO_SUCH_FORMAT = {"error": {"message": "response_format is not supported"}}


def formats(server: ScriptedServer) -> list[Any]:
    return [asked.body.get("response_format", {}).get("type") for asked in server.asked]


# What is sent


async def test_a_form_is_asked_for_by_its_schema(server: ScriptedServer, connect: Connect) -> None:
    await connect().complete(ANSWER)
    schema = {"type": "object", "properties": {"answer": {"type": "integer", "enum": [1, 2, 3]}}}
    assert server.asked[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "strict": True,
            "schema": schema | {"required": ["answer"], "additionalProperties": False},
        },
    }


async def test_a_form_without_a_schema_is_an_object_and_no_form_is_text(
    server: ScriptedServer, connect: Connect
) -> None:
    model = connect()
    await model.complete(Request(HELLO, "write", form=ANY_OBJECT))
    await model.complete(Request(HELLO, "reply"))
    assert [asked.body.get("response_format") for asked in server.asked] == [{"type": "json_object"}, None]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (record(a=TEXT, b=items(record(c=NUMBER))), True),
        (record(type=TEXT, properties=TEXT, additionalProperties=NUMBER), True),
        (record(), True),
        (record(a=mapping(TEXT)), False),
        (mapping(TEXT), False),
        (record(a=items({"anyOf": [record(b=TEXT), some_of(c=TEXT)]})), False),
    ],
)
def test_only_a_schema_with_no_open_object_is_strict(schema: dict[str, Any], strict: bool) -> None:
    assert ReplyForm.of("x", schema).strict is strict


def test_a_choice_among_no_values_is_any_text_and_equal_values_are_one() -> None:
    schema = json.loads(choice_form({"a": [], "b": ["x", "y", "x"]}).schema or "")
    assert schema["properties"] == {"a": {"type": "string"}, "b": {"type": "string", "enum": ["x", "y"]}}


@pytest.mark.parametrize("setting", ["json_schema", "json_object", "text"])
async def test_a_setting_fixes_the_format(server: ScriptedServer, connect: Connect, setting: str) -> None:
    model = connect(structured=setting)
    await model.complete(ANSWER)
    assert formats(server) == [None if setting == "text" else setting]
    server.poison("Hello", NO_SUCH_FORMAT, status=400)
    with pytest.raises(Refused, match="not supported"):
        await model.complete(ANSWER)
    assert len(server.asked) == 2


# Falling back


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, NO_SUCH_FORMAT),
        (400, {"error": {"message": "Invalid schema for response_format 'answer'"}}),
        (400, {"error": {"message": "This model does not support response format `json_schema`"}}),
        (400, {"error": {"message": "This response_format type is unavailable now"}}),
        (400, {"error": {"message": "'response_format.type' must be 'json_object' or 'text'"}}),
        (400, {"error": {"message": "Failed to parse grammar"}}),
        (400, {"error": "guided decoding is not supported"}),
        (400, {"message": "Unrecognized request argument supplied"}),
        (422, {"detail": [{"loc": ["body", "response_format"], "msg": "Extra inputs are not permitted"}]}),
    ],
)
async def test_a_server_without_schemas_is_asked_for_an_object_and_then_in_words(
    server: ScriptedServer, connect: Connect, status: int, body: object
) -> None:
    server.poison(SCHEMA, body, status=status)
    model = connect()
    assert (await model.complete(ANSWER)).text == "fine"
    server.poison(OBJECT, body, status=status)
    assert (await model.complete(NOTES)).text == "fine"
    assert formats(server) == ["json_schema", "json_object", "json_schema", "json_object", None]


async def test_a_refused_format_is_not_tried_again_for_forms_of_that_name(
    server: ScriptedServer, connect: Connect
) -> None:
    server.poison(SCHEMA, NO_SUCH_FORMAT, status=400)
    model = connect()
    for most in (3, 4, 5):
        await model.complete(Request(HELLO, "answer", form=number_form(most)))
    assert formats(server) == ["json_schema", "json_object", "json_object", "json_object"]


@pytest.mark.parametrize(
    "message", ["This model's maximum context length is 10 tokens, JSON included", "Your prompt violates our policy"]
)
async def test_what_is_refused_for_another_reason_is_not_asked_in_another_form(
    server: ScriptedServer, connect: Connect, message: str
) -> None:
    server.poison("Hello", {"error": {"message": message}}, status=400)
    with pytest.raises(Refused):
        await connect().complete(ANSWER)
    assert len(server.asked) == 1


async def test_what_is_refused_in_every_form_is_refused_and_says_nothing_of_forms(
    server: ScriptedServer, connect: Connect
) -> None:
    model = connect()
    server.poison("Hello", {"error": {"message": "unknown field"}}, status=400)
    with pytest.raises(Refused, match="unknown field"):
        await model.complete(ANSWER)
    await model.complete(Request((Message("user", "Good day"),), "answer", form=number_form(3)))
    assert formats(server) == ["json_schema", "json_object", None, "json_schema"]


async def test_the_official_client_falls_back_likewise(server: ScriptedServer) -> None:
    server.poison(SCHEMA, NO_SUCH_FORMAT, status=400)
    async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        model = ClientModel(client, "m")
        spent = await spend(model, [ANSWER, ANSWER])
    assert formats(server) == ["json_schema", "json_object", "json_object"]
    assert spent == {"cut": 0, "response_formats": {"json_object": 2}}


# The cache


async def test_a_resumed_run_finds_the_replies_of_every_format_and_asks_as_before(
    server: ScriptedServer, connect: Connect, tmp_path: Path
) -> None:
    early = Request((Message("user", "early"),), "answer", form=number_form(3))
    late = Request((Message("user", "late"),), "answer", form=number_form(3))
    first = await connect_and_ask(connect, tmp_path, [early])
    server.poison(SCHEMA, NO_SUCH_FORMAT, status=400)
    first += await connect_and_ask(connect, tmp_path, [ANSWER])
    assert formats(server) == ["json_schema", "json_schema", "json_object"]
    again = await connect_and_ask(connect, tmp_path, [early, ANSWER, late])
    assert formats(server)[3:] == ["json_object"], "only what is new is asked, and in the format that is known to work"
    assert again[:2] == first


async def connect_and_ask(connect: Connect, folder: Path, requests: list[Request]) -> list[tuple[str, Any]]:
    cache = ResponseCache(folder / "cache.db")
    model = connect(cache=cache)
    completions = [await model.complete(request) for request in requests]
    cache.close()
    return [(completion.text, completion.usage.response_format) for completion in completions]


# What is counted


async def spend(model: LanguageModel, requests: list[Request]) -> dict[str, Any]:
    metered = Metered(model)
    for request in requests:
        await metered.complete(request)
    total = metered.ledger.total
    return {"cut": total.cut, "response_formats": total.response_formats}


async def test_the_ledger_says_how_replies_were_asked_for(server: ScriptedServer, connect: Connect) -> None:
    spent = await spend(connect(), [ANSWER, NOTES, Request(HELLO, "write", form=ANY_OBJECT), Request(HELLO, "reply")])
    assert spent["response_formats"] == {"json_schema": 2, "json_object": 1}


async def test_cut_replies_are_counted_also_out_of_the_cache_and_warned_of_once(
    server: ScriptedServer, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    choice = {"message": {"role": "assistant", "content": "and so"}, "finish_reason": "length"}
    server.poison("Hello", {"choices": [choice]})
    requests = [Request(HELLO, "reply", repeat=i) for i in range(3)]
    for _ in range(2):
        cache = ResponseCache(tmp_path / "cache.db")
        with caplog.at_level(logging.WARNING):
            assert (await spend(connect(cache=cache), requests))["cut"] == 3
        cache.close()
    assert len(server.asked) == 3
    assert [record.message for record in caplog.records] == [
        "model m: a reply (reply) was cut at its limit of 2048 tokens or at the context's end; see endpoint.max_tokens"
    ]


# Limits


@pytest.mark.parametrize(
    ("setting", "sent"),
    [(None, [2048, 512, 99]), (300, [300, 300, 300]), ({"answer": 64, "user": 7}, [2048, 64, 7])],
)
async def test_the_longest_reply_goes_by_role_and_can_be_set(
    server: ScriptedServer, connect: Connect, setting: object, sent: list[int]
) -> None:
    model = connect(max_tokens=setting)
    requests = [Request(HELLO, "reply"), ANSWER, Request(HELLO, "user", max_tokens=99)]
    for request in requests:
        await model.complete(request)
    assert [asked.body["max_tokens"] for asked in server.asked] == sent
    assert [model.worst_case(request).output_tokens for request in requests] == sent
