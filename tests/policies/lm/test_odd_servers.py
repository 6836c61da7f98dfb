"""What servers and gateways say in ways of their own: thinking, failures inside replies, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import openai
import pytest

from mnemotune.policies.forms import ANY_OBJECT
from mnemotune.policies.lm import EndpointDown, LanguageModelError, Message, Refused, Request
from mnemotune.policies.lm.client import ClientModel
from mnemotune.policies.lm.refusals import advice_for, error_kind
from mnemotune.policies.lm.streaming import Said, events_of

if TYPE_CHECKING:
    from .conftest import Connect, ScriptedServer

REQUEST = Request((Message("user", "Hello"),), "answer")


async def test_thinking_that_is_no_part_of_the_completion_is_billed(server: ScriptedServer, connect: Connect) -> None:
    server.say("Yes.", usage={"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135})
    completion = await connect().complete(REQUEST)
    assert (completion.usage.input_tokens, completion.usage.output_tokens) == (32, 103)


@pytest.mark.parametrize("choice", [{"error": {"message": "gone"}}, {"finish_reason": "error"}])
async def test_a_reply_that_broke_off_behind_the_gateway_is_asked_for_again(
    server: ScriptedServer, connect: Connect, choice: dict[str, Any]
) -> None:
    server.answer({"choices": [{"message": {"content": "Ye"}, **choice}]})
    assert (await connect().complete(REQUEST)).text == "fine"
    assert len(server.asked) == 2


async def test_thoughts_and_parts_of_a_reply_are_told_from_its_text(server: ScriptedServer, connect: Connect) -> None:
    server.say("<think>Say no?</think>Yes.")
    server.answer({"choices": [{"message": {"content": [{"type": "thinking"}, {"type": "text", "text": "Yes."}]}}]})
    model = connect()
    assert [(await model.complete(REQUEST)).text for _ in range(2)] == ["Yes.", "Yes."]


async def test_one_reply_that_is_no_json_is_asked_for_again_and_no_form_is_given_up(
    server: ScriptedServer, connect: Connect
) -> None:
    said = {"message": "Failed to validate JSON. Please adjust your prompt.", "code": "json_validate_failed"}
    server.answer({"error": said}, status=400)
    model = connect()
    for _ in range(2):
        await model.complete(Request(REQUEST.messages, "write", form=ANY_OBJECT))
    assert {str(asked.body["response_format"]["type"]) for asked in server.asked} == {"json_object"}


async def test_a_model_that_never_makes_json_in_a_form_is_asked_in_another(
    server: ScriptedServer, connect: Connect
) -> None:
    for _ in range(3):
        server.answer({"error": {"message": "Bad.", "code": "json_validate_failed"}}, status=400)
    model = connect(attempts=3)
    requests = [Request((Message("user", text),), "write", form=ANY_OBJECT) for text in ("one", "two")]
    assert [(await model.complete(request)).text for request in requests] == ["fine", "fine"]
    asked = [(one.body["messages"][0]["content"], "response_format" in one.body) for one in server.asked]
    assert [one for one in asked if one[0] in ("one", "two")] == [("one", True)] * 3 + [("one", False), ("two", False)]


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (403, "Your chosen model requires moderation and your input was flagged for violence", Refused),
        (403, "Your key may not use this model", EndpointDown),
        (400, "Budget has been exceeded! Current cost: 5.0, Max budget: 5.0", EndpointDown),
        (400, "API key not valid. Please pass a valid API key.", EndpointDown),
        (400, "Unsupported value: 'temperature' does not support 0 with this model.", Refused),
        (400, "This model's context length is 8192 tokens", Refused),
    ],
)
def test_words_tell_what_a_refusal_means(status: int, message: str, kind: type[LanguageModelError]) -> None:
    assert error_kind(status, message) is kind


def test_a_refusal_comes_with_what_to_do() -> None:
    assert "extra_body to {temperature: 1}" in advice_for(400, "Unsupported value: 'temperature' does not support 0")
    assert "budget" in advice_for(400, "Budget has been exceeded!")


@pytest.mark.parametrize("status", [400, 429])
async def test_a_spent_budget_ends_the_run_at_once(server: ScriptedServer, connect: Connect, status: int) -> None:
    server.refuse(status, "Budget has been exceeded! Current cost: 5.0", times=9)
    with pytest.raises(EndpointDown, match="Budget has been exceeded"):
        await connect().complete(REQUEST)
    assert len(server.asked) == 1


def test_calls_that_a_stream_does_not_number_are_told_apart_by_their_ids() -> None:
    said = Said()
    for call in (
        {"id": "a", "function": {"name": "look", "arguments": "{"}},
        {"function": {"arguments": "}"}},
        {"id": "b", "function": {"name": "go", "arguments": "{}"}},
    ):
        said.take({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    assert [(call.id, call.name, call.arguments) for call in said.message.tool_calls] == [
        ("a", "look", "{}"),
        ("b", "go", "{}"),
    ]


async def test_a_stream_that_ends_with_an_error_is_no_reply() -> None:
    async def content(lines: Sequence[str]) -> Any:
        for line in lines:
            yield line.encode()

    with pytest.raises(ValueError, match="finish_reason 'error'"):
        async for _ in events_of(content(['data: {"choices": [{"delta": {}, "finish_reason": "error"}]}\n\n'])):
            pass


async def test_the_official_client_learns_what_a_thinking_model_takes(server: ScriptedServer) -> None:
    server.refuse(400, "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.")
    server.refuse(400, "Unsupported value: 'temperature' does not support 0 with this model.")
    async with openai.AsyncOpenAI(base_url=server.url, api_key="any", max_retries=0) as client:
        model = ClientModel(client, "m")
        assert [(await model.complete(REQUEST)).text for _ in range(2)] == ["fine", "fine"]
    assert len(server.asked) == 4
    last = server.asked[-1].body
    assert "max_completion_tokens" in last
    assert {"max_tokens", "temperature"}.isdisjoint(last)
