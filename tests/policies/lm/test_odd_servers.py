"""What servers and gateways say in ways of their own: thinking, failures inside replies, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import fastapi
import openai
import pytest

from loopback import on_loopback
from mnemotune.policies.forms import ANY_OBJECT, ReplyForm
from mnemotune.policies.lm import EndpointDown, LanguageModelError, Message, Refused, Request
from mnemotune.policies.lm.client import ClientModel
from mnemotune.policies.lm.openai import OpenAIEmbedder
from mnemotune.policies.lm.refusals import advice_for, error_kind
from mnemotune.policies.lm.streaming import Said, events_of
from spending import Bill

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
        (400, "The input token count (9000) exceeds the maximum number of tokens allowed (8192)", Refused),
    ],
)
def test_words_tell_what_a_refusal_means(status: int, message: str, kind: type[LanguageModelError]) -> None:
    assert error_kind(status, message) is kind


@pytest.mark.parametrize(
    "message",
    [
        "Input tokens exceed the configured limit of 272000 tokens.",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "The input token count (9000) exceeds the maximum number of tokens allowed (8192)",
        "Input is too long for requested model.",
    ],
)
def test_a_prompt_that_is_too_long_is_known_in_many_words(message: str) -> None:
    assert "set context_tokens" in advice_for(400, message)
    assert "context_tokens" not in advice_for(429, message)


def test_a_refusal_comes_with_what_to_do() -> None:
    assert "extra_body to {temperature: 1}" in advice_for(400, "Unsupported value: 'temperature' does not support 0")
    assert "budget" in advice_for(400, "Budget has been exceeded!")


@pytest.mark.parametrize("status", [400, 429])
async def test_a_spent_budget_ends_the_run_at_once(server: ScriptedServer, connect: Connect, status: int) -> None:
    server.refuse(status, "Budget has been exceeded! Current cost: 5.0", times=9)
    with pytest.raises(EndpointDown, match="Budget has been exceeded"):
        await connect().complete(REQUEST)
    assert len(server.asked) == 1


async def test_words_behind_a_gateway_tell_which_form_is_not_taken(server: ScriptedServer, connect: Connect) -> None:
    raw = '{"error": {"message": "response_format json_schema is not supported"}}'
    server.answer({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}, status=400)
    form = ReplyForm.of("notes", {"type": "object", "properties": {}})
    await connect().complete(Request(REQUEST.messages, "write", form=form))
    assert [asked.body["response_format"]["type"] for asked in server.asked] == ["json_schema", "json_object"]


async def test_a_path_that_a_server_lacks_ends_a_run_at_once(server: ScriptedServer, connect: Connect) -> None:
    server.answer({"error": "Unexpected endpoint or method. (POST /chat/completions)"})
    with pytest.raises(EndpointDown, match=r"status 404: Unexpected endpoint .*ends in /v1"):
        await connect().complete(REQUEST)


async def test_what_a_gateway_says_of_a_broken_reply_is_not_quoted_where_that_is_unwanted(
    server: ScriptedServer, connect: Connect
) -> None:
    choice = {"message": {"content": "Ye"}, "error": {"message": "cannot go on after 'I live in Lisbon'"}}
    for quoted in (True, False):
        server.answer({"choices": [choice]})
        with pytest.raises(LanguageModelError, match="the reply broke off") as caught:
            await connect(attempts=1, quote_server=quoted).complete(REQUEST)
        assert ("Lisbon" in str(caught.value)) is quoted


async def test_a_reply_at_the_end_of_the_context_is_cut(server: ScriptedServer, connect: Connect) -> None:
    server.answer({"choices": [{"message": {"content": "Ye"}, "finish_reason": "model_length"}]})
    assert (await connect().complete(REQUEST)).usage.cut


async def test_vectors_without_their_places_are_in_the_order_of_the_texts(server: ScriptedServer) -> None:
    """Gemini leaves out the place 0, and others leave out all."""
    for second in ({"index": 1}, {"index": None}, {}):
        server.answer({"data": [{"embedding": [1.0, 0.0]}, {"embedding": [0.0, 1.0], **second}]})
        embedder = OpenAIEmbedder("e", base_url=server.url)
        assert (await embedder.embed(["a", "b"])).vectors.tolist() == [[1, 0], [0, 1]]
        await embedder.aclose()


async def test_a_batch_that_a_server_finds_too_large_is_sent_in_parts() -> None:
    with on_loopback(TakesFew) as server:
        embedder = OpenAIEmbedder("e", base_url=server.url)
        for _ in range(2):
            rows = (await embedder.embed(list(map(str, range(100))))).vectors
            assert (rows[:, 1] / rows[:, 0]).round().tolist() == list(range(100))
        await embedder.aclose()
    assert server.sizes == [100, 50, 25, 25, 50, 25, 25, 25, 25, 25, 25]


async def test_a_text_that_is_refused_by_itself_makes_no_batch_smaller() -> None:
    with on_loopback(TakesFew) as server:
        embedder = OpenAIEmbedder("e", base_url=server.url)
        with pytest.raises(Refused):
            await embedder.embed(["1", "too long", "3"])
        await embedder.embed(["1", "2", "3"])
        await embedder.aclose()
    assert server.sizes == [3, 2, 1, 1, 3]


async def test_of_a_text_that_is_too_long_the_beginning_is_embedded() -> None:
    with on_loopback(TakesFew) as server:
        server.most_characters = 8_192
        embedder = OpenAIEmbedder("e", base_url=server.url)
        rows = (await embedder.embed(["1", "2" * 40_000, "3"])).vectors
        await embedder.embed(["4", "5", "6"])
        await embedder.aclose()
    assert len(rows) == 3
    assert server.sizes == [3, 2, 1, 1, 1, 1, 1, 1, 3], "no batch is smaller for it"


async def test_parts_that_were_answered_are_billed_where_another_part_is_refused() -> None:
    bill = Bill()
    with on_loopback(TakesFew) as server:
        embedder = OpenAIEmbedder("e", base_url=server.url)
        with pytest.raises(Refused):
            await embedder.embed(["1", "2", "no number"], bill=bill)
        with pytest.raises(Refused):
            await embedder.embed(["no number"], bill=bill)
        await embedder.aclose()
    assert bill.heard.count("unanswered") == 1


class TakesFew:
    """Embeds at most so many texts at once, of short ones."""

    def __init__(self, url: str, most: int = 32, most_characters: int = 100) -> None:
        self.url, self.most, self.most_characters = url, most, most_characters
        self.sizes: list[int] = []

    async def handle(self, request: fastapi.Request) -> fastapi.Response:
        texts = (await request.json())["input"]
        self.sizes.append(len(texts))
        if len(texts) > self.most or max(map(len, texts)) > self.most_characters or not all(map(str.isdigit, texts)):
            return fastapi.responses.JSONResponse({"error": f"batch size {len(texts)} > {self.most}"}, 422)
        vectors = [{"index": place, "embedding": [1.0, float(text[:9])]} for place, text in enumerate(texts)]
        return fastapi.responses.JSONResponse({"data": vectors})


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
