"""OpenAI's official client in place of a language model, against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import openai
import pytest

from mnemotune.policies import Assistant, load_policy
from mnemotune.policies.forms import ANY_OBJECT
from mnemotune.policies.lm import EndpointDown, LanguageModelError, Message, Request, ToolCall
from mnemotune.policies.lm.base import Tool
from mnemotune.policies.lm.client import ClientModel, as_model
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import open_memory
from spending import Bill

if TYPE_CHECKING:
    from .conftest import ScriptedServer

HELLO = Request((Message("user", "Hello."),), role="reply")


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=server.url, api_key="any", max_retries=0) as made:
        yield made


async def test_an_assistant_and_its_memory_take_the_official_client(
    client: openai.AsyncOpenAI, server: ScriptedServer
) -> None:
    memory = open_memory(load_policy("awi"), client, LexicalEmbedder(), model_name="writer")
    assistant = Assistant(client, memory, model_name="talker")
    server.say("Nice boat.")
    reply, _ = await assistant.reply("I have a boat.")
    assert reply == "Nice boat."
    for _ in range(6):
        await assistant.reply("It is red.")
    asked = [(asked.body["model"], "response_format" in asked.body) for asked in server.asked]
    assert set(asked) == {("talker", False), ("writer", True)}


async def test_a_client_is_asked_for_a_model_by_name(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(ValueError, match="say which with model_name"):
        as_model(client)
    assert as_model(client, "m").name == "m"
    model = EmbeddedModel()
    assert as_model(model) is model


async def test_messages_settings_and_usage_pass_through(client: openai.AsyncOpenAI, server: ScriptedServer) -> None:
    call = Message("assistant", "", (ToolCall("c1", "search", "{}"),))
    messages = (Message("user", "Boats?"), call, Message("tool", "None.", tool_call_id="c1"))
    server.say("No boats.", usage={"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15})
    request = Request(messages, role="write", form=ANY_OBJECT, temperature=0.5, max_tokens=77)
    completion = await ClientModel(client, "m").complete(request)
    assert (completion.text, completion.usage.tokens, completion.usage.cost_usd) == ("No boats.", 15, None)
    assert server.asked[-1].body == {
        "model": "m",
        "messages": [message.as_json() for message in messages],
        "temperature": 0.5,
        "max_tokens": 77,
        "response_format": {"type": "json_object"},
    }


@pytest.mark.parametrize("wanted", [True, False])
async def test_tools_are_sent_and_their_calls_are_read_where_somebody_wants_them(
    client: openai.AsyncOpenAI, server: ScriptedServer, wanted: bool
) -> None:
    search = Tool("search", "Looks something up.", '{"type": "object"}')
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "boats"}'}}
    server.answer({"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]})
    completion = await ClientModel(client, "m").complete(replace(HELLO, tools=(search,) if wanted else ()))
    assert server.asked[-1].body.get("tools") == ([search.as_json()] if wanted else None)
    assert completion.tool_calls == ((ToolCall("c1", "search", '{"q": "boats"}'),) if wanted else ())
    assert (completion.usage.output_tokens > 0) is wanted


async def test_tokens_are_estimated_where_the_server_counts_none(
    client: openai.AsyncOpenAI, server: ScriptedServer
) -> None:
    server.say(None)
    completion = await ClientModel(client, "m").complete(HELLO)
    assert (completion.text, completion.usage.input_tokens, completion.usage.output_tokens) == ("", 2, 0)


@pytest.mark.parametrize(("status", "down"), [(401, True), (404, True), (400, False), (500, False)])
async def test_a_refusal_is_an_error_of_the_language_model(
    client: openai.AsyncOpenAI, server: ScriptedServer, status: int, down: bool
) -> None:
    server.refuse(status, "not today")
    with pytest.raises(LanguageModelError, match=r"model m: .*not today") as caught:
        await ClientModel(client, "m").complete(HELLO)
    assert isinstance(caught.value, EndpointDown) == down


async def test_a_call_that_was_not_answered_is_counted() -> None:
    bill = Bill()
    request = Request(HELLO.messages, role="reply", bill=bill)
    async with openai.AsyncOpenAI(base_url="http://127.0.0.1:9", api_key="any", max_retries=0) as client:
        with pytest.raises(LanguageModelError, match="model m: Connection error"):
            await ClientModel(client, "m").complete(request)
    assert bill.heard == ["sending", "unanswered"]


@pytest.mark.parametrize(
    "usage",
    [{"prompt_tokens": 9, "total_tokens": 9}, {"prompt_tokens": None, "completion_tokens": None}, {}],
)
async def test_a_usage_with_gaps_is_filled_by_an_estimate(
    client: openai.AsyncOpenAI, server: ScriptedServer, usage: dict[str, Any]
) -> None:
    server.say("Nice boat.", usage=usage)
    completion = await ClientModel(client, "m").complete(HELLO)
    assert (completion.usage.input_tokens, completion.usage.output_tokens) == (usage.get("prompt_tokens") or 2, 3)


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ({"message": {"content": "Ye"}, "finish_reason": "error", "error": {"message": "gone"}}, "broke off: gone"),
        ({"message": {"content": "Ye"}, "error": {"message": "gone"}}, "broke off: gone"),
        ({"message": None, "finish_reason": "stop"}, "no choice with a text"),
    ],
)
async def test_a_reply_that_is_none_is_an_error(
    client: openai.AsyncOpenAI, server: ScriptedServer, choice: dict[str, Any], problem: str
) -> None:
    server.answer({"choices": [choice]})
    with pytest.raises(LanguageModelError, match=f"model m: .*{problem}"):
        await ClientModel(client, "m").complete(HELLO)


class Looks:
    """Looks like a client, and answers as a test wants it to."""

    def __init__(self, create: Callable[..., Any]) -> None:
        self.chat = self.completions = self
        self.create = create


async def test_a_mistake_of_the_program_is_no_failure_of_the_model() -> None:
    def broken(**_: Any) -> Any:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await ClientModel(Looks(broken), "m").complete(HELLO)
    with pytest.raises(TypeError, match=r"Looks is not asynchronous; give an openai.AsyncOpenAI"):
        await ClientModel(Looks(lambda **_: "text"), "m").complete(HELLO)
