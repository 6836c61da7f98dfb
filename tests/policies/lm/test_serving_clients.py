"""The server as clients see it: OpenAI's own, DSPy's, and ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import dspy
import numpy as np
import openai
import pytest
from pydantic import BaseModel

from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env import Cast, DialogueTrack, Evaluation, Evaluator, Protocol
from mnemotune.env.dialogue.record import period_of
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, Embedder, LanguageModel, LanguageModelError, Message, Request, Usage
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.endpoint_config import EndpointConfig
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.lm.providers import open_embedder
from mnemotune.policies.lm.serving import Served, listening
from mnemotune.policies.prompts import Templates

TALK: list[Any] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "My boat is red."},
    {"role": "assistant", "content": "I see."},
    {"role": "user", "content": "What colour suits my boat? I like green."},
]
MESSAGES = tuple(Message(message["role"], message["content"]) for message in TALK)


@pytest.fixture(scope="module")
def said() -> Completion:
    """What the embedded model says to TALK in this process."""
    return asyncio.run(EmbeddedModel().complete(Request(MESSAGES, "reply")))


@pytest.fixture
def client(embedded_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=embedded_url, api_key="any", max_retries=0) as made:
        yield made


@pytest.fixture
async def async_client(embedded_url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=embedded_url, api_key="any", max_retries=0) as made:
        yield made


# OpenAI's client


def test_openais_client_gets_what_the_model_says(client: openai.OpenAI, said: Completion) -> None:
    reply = client.chat.completions.create(model="embedded", messages=TALK)
    (choice,) = reply.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == said.text
    assert choice.finish_reason == "stop"
    assert reply.model == "embedded"
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == said.usage.input_tokens
    assert reply.usage.completion_tokens == said.usage.output_tokens
    assert reply.usage.total_tokens == said.usage.tokens


async def test_openais_asynchronous_client_does_too(async_client: openai.AsyncOpenAI, said: Completion) -> None:
    asked = (async_client.chat.completions.create(model="embedded", messages=TALK) for _ in range(8))
    replies = await asyncio.gather(*asked)
    assert {reply.choices[0].message.content for reply in replies} == {said.text}
    assert len({reply.id for reply in replies}) == 8


def test_openais_client_gets_an_object_in_json_mode(client: openai.OpenAI, said: Completion) -> None:
    json_mode: Any = {"type": "json_object"}
    reply = client.chat.completions.create(model="embedded", messages=TALK, response_format=json_mode)
    assert json.loads(reply.choices[0].message.content or "") == {"reply": said.text}


def test_openais_client_gets_an_object_of_its_own_class(client: openai.OpenAI, said: Completion) -> None:
    class Inner(BaseModel):
        colour: Literal["red", "green", "blue"]

    class Answer(BaseModel):
        text: str
        sure: bool
        parts: list[Inner]
        other: Inner | None = None

    reply = client.chat.completions.parse(model="embedded", messages=TALK, response_format=Answer)
    green = Inner(colour="green")
    assert reply.choices[0].message.parsed == Answer(text=said.text, sure=False, parts=[green], other=green)


def test_openais_client_reads_a_stream_and_its_usage(client: openai.OpenAI, said: Completion) -> None:
    asked: Any = {"model": "embedded", "messages": TALK, "stream": True, "stream_options": {"include_usage": True}}
    *pieces, last = client.chat.completions.create(**asked)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == said.text
    assert [piece.choices[0].finish_reason for piece in pieces] == [None] * (len(pieces) - 1) + ["stop"]
    assert last.choices == []
    assert last.usage.total_tokens == said.usage.tokens


async def test_openais_asynchronous_client_reads_a_stream_too(
    async_client: openai.AsyncOpenAI, said: Completion
) -> None:
    async with async_client.chat.completions.stream(model="embedded", messages=TALK) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == said.text


@pytest.mark.parametrize("form", ["base64", "float"])
async def test_openais_client_gets_embeddings(async_client: openai.AsyncOpenAI, form: Any) -> None:
    texts = ["I own a boat.", "My boat sails.", "Tea?"]
    plain = await async_client.embeddings.create(model="lexical", input=texts, encoding_format=form)
    default = await async_client.embeddings.create(model="lexical", input=texts)
    rows = np.array([item.embedding for item in default.data], dtype=np.float32)
    assert np.array_equal(rows, (await LexicalEmbedder().embed(texts)).vectors)
    assert len(plain.data) == 3


async def test_openais_client_lists_the_models(client: openai.OpenAI, async_client: openai.AsyncOpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["embedded", "lexical"]
    assert [model.id async for model in async_client.models.list()] == ["embedded", "lexical"]
    assert client.models.retrieve("embedded").owned_by == "mnemotune"


@pytest.mark.parametrize("stream", [False, True])
def test_openais_client_gets_the_call_of_a_tool_that_it_forces(client: openai.OpenAI, stream: bool) -> None:
    parameters = {"type": "object", "properties": {"topic": {"enum": ["boats", "bread"]}}, "required": ["topic"]}
    forced: Any = {
        "tools": [{"type": "function", "function": {"name": "note", "parameters": parameters}}],
        "tool_choice": {"type": "function", "function": {"name": "note"}},
    }
    if stream:
        pieces = client.chat.completions.create(model="embedded", messages=TALK, stream=True, **forced)
        choices = [piece.choices[0] for piece in pieces]
        calls = [call for choice in choices for call in choice.delta.tool_calls or ()]
        finish = choices[-1].finish_reason
    else:
        choice = client.chat.completions.create(model="embedded", messages=TALK, **forced).choices[0]
        assert choice.message.content is None
        calls, finish = choice.message.tool_calls, choice.finish_reason
    assert finish == "tool_calls"
    assert [(call.id, call.function.name) for call in calls] == [(f"call_{len(TALK)}_note", "note")]
    assert json.loads(calls[0].function.arguments)["topic"] in {"boats", "bread"}


def test_openais_client_raises_its_own_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gpt", messages=TALK)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="embedded", messages=TALK, functions=[{"name": "f"}])
    assert bad.value.param == "functions"
    with pytest.raises(openai.NotFoundError, match="POST /v1/chat/completions"):
        client.responses.create(model="embedded", input="Hello")


async def test_openais_client_comes_again_when_the_server_is_full() -> None:
    held = asyncio.Event()

    class Held(LanguageModel):
        name = "held"

        async def complete(self, request: Request) -> Completion:
            arrived.set()
            await held.wait()
            return Completion("fine", Usage(1, 1))

        async def aclose(self) -> None:
            pass

    arrived = asyncio.Event()
    served = Served(Held(), LexicalEmbedder(), most_requests=1)
    async with (
        listening(served, host="127.0.0.1", port=0) as url,
        openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as client,
    ):
        first = asyncio.create_task(client.chat.completions.create(model="held", messages=TALK))
        await arrived.wait()
        with pytest.raises(openai.RateLimitError) as full:
            await client.embeddings.create(model="lexical", input="a")
        assert full.value.response.headers["Retry-After"] == "1"
        held.set()
        assert (await first).choices[0].message.content == "fine"
        assert len((await client.embeddings.create(model="lexical", input="a")).data) == 1


# DSPy's client


@pytest.fixture
def lm(embedded_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else DSPy looks for prices in the network
    return dspy.LM("openai/embedded", api_base=embedded_url, api_key="any", cache=False)


def test_dspys_client_gets_what_the_model_says(lm: Any) -> None:
    question = "I own a small boat. Where shall I go?"
    said = asyncio.run(EmbeddedModel().complete(Request((Message("user", question),), "reply")))
    assert lm(question) == [said.text]
    assert lm.history[-1]["usage"]["total_tokens"] == said.usage.tokens


def test_dspys_embedder_gets_the_vectors(lm: Any, embedded_url: str) -> None:
    embedder = dspy.Embedder("openai/lexical", api_base=embedded_url, api_key="any", caching=False)
    texts = ["I own a boat.", "Tea?"]
    assert np.allclose(embedder(texts), asyncio.run(LexicalEmbedder().embed(texts)).vectors)


class Advise(dspy.Signature):  # type: ignore[misc]
    """Advise the user."""

    notes: list[str] = dspy.InputField(desc="what is known")
    question: str = dspy.InputField()
    advice: str = dspy.OutputField()
    sure: bool = dspy.OutputField()
    count: int = dspy.OutputField()
    share: float = dspy.OutputField()
    colour: Literal["deep red", "sea green"] = dspy.OutputField()
    floor: Literal[1, 2] = dspy.OutputField()
    tags: list[str] = dspy.OutputField()
    table: dict[str, int] = dspy.OutputField()
    maybe: int | None = dspy.OutputField()


ADAPTERS = [
    pytest.param(lambda: dspy.ChatAdapter(use_json_adapter_fallback=False), id="chat"),
    pytest.param(dspy.JSONAdapter, id="json"),
]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_dspys_predict_gets_the_reply_to_its_plain_text(lm: Any, adapter: Any) -> None:
    question = "I own a small boat. Where shall I go?"
    with dspy.context(lm=lm, adapter=adapter()):
        told = dspy.Predict("question -> answer")(question=question)
        thought = dspy.ChainOfThought("question -> answer")(question=question)
    assert told.answer == thought.answer == thought.reasoning == lm(question)[0]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_dspys_predict_gets_values_of_each_type(lm: Any, adapter: Any) -> None:
    predict = dspy.Predict(Advise)
    predict.demos = [dspy.Example(notes=["I ski."], question="Why?", advice="So.", sure=True, colour="deep red")]
    notes, question = ["I own 2 boats.", "I like the green of the sea."], "What colour?"
    with dspy.context(lm=lm, adapter=adapter()):
        told = predict(notes=notes, question=question)
    assert "the green of the sea" in told.advice or "you own 2 boats" in told.advice
    assert (told.sure, told.count, told.share) == (False, 2, 2.0)
    assert (told.colour, told.floor, told.tags, told.table, told.maybe) == ("sea green", 2, [told.advice], {}, 2)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_dspys_history_is_remembered(lm: Any, adapter: Any) -> None:
    history = dspy.History(messages=[{"question": "My cat is called Tiger.", "answer": "I see."}])
    with dspy.context(lm=lm, adapter=adapter()):
        told = dspy.Predict("question, history: dspy.History -> answer")(
            question="What is my cat called?", history=history
        )
    assert "your cat is called Tiger" in told.answer


# Our clients


@pytest.fixture
async def ours(embedded_url: str) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel("embedded", base_url=embedded_url, attempts=1)
    yield model
    await model.aclose()


async def test_our_model_gets_the_same_completion(ours: OpenAIModel, said: Completion) -> None:
    got = await ours.complete(Request(MESSAGES, "reply"))
    assert (got.text, got.usage.input_tokens, got.usage.output_tokens) == (
        said.text,
        said.usage.input_tokens,
        said.usage.output_tokens,
    )


async def test_our_model_is_told_of_another_model(embedded_url: str) -> None:
    model = OpenAIModel("gpt", base_url=embedded_url, attempts=1)
    with pytest.raises(LanguageModelError, match=r"no model 'gpt' here; there is 'embedded'.*check the model's name"):
        await model.complete(Request(MESSAGES, "reply"))
    await model.aclose()


async def test_our_embedder_gets_the_same_vectors(embedded_url: str) -> None:
    embedder = open_embedder("openai:lexical", EndpointConfig(base_url=embedded_url, attempts=1))
    texts = ["I own a boat.", "", "Tea?"]
    assert np.allclose((await embedder.embed(texts)).vectors, (await LexicalEmbedder().embed(texts)).vectors)
    await embedder.aclose()


async def evaluated(model: LanguageModel, preset: str, embedder: Embedder | None = None) -> Evaluation:
    (life,) = generate_scenarios(users=1, seed=1)
    short = life.model_copy(update={"periods": life.periods[:2], "qas": life.qas[:3]})
    cast = Cast(model, model, embedder or LexicalEmbedder())
    return await Evaluator(DialogueTrack(Protocol(1, 1, Templates.bundled())), cast).evaluate(
        load_policy(preset), [short]
    )


@pytest.mark.parametrize("preset", ["awi", "awe"])
async def test_an_evaluation_through_http_gives_the_same_answers_as_in_this_process(
    ours: OpenAIModel, preset: str
) -> None:
    (there,) = (await evaluated(ours, preset)).episodes
    (here,) = (await evaluated(EmbeddedModel(), preset)).episodes
    assert there.failure is None
    assert len(there.stages) == len(here.stages) == 2
    for p in range(2):
        theirs, ours_here = period_of(there, p), period_of(here, p)
        assert list(theirs.heard) == list(ours_here.heard)
        assert [write.after for write in theirs.writes] == [write.after for write in ours_here.writes]
        assert [answer.choice for answer in theirs.answers] == [answer.choice for answer in ours_here.answers]
        assert [probe.values for probe in theirs.probes] == [probe.values for probe in ours_here.probes]


@pytest.mark.parametrize("preset", ["rag", "awe"])
async def test_an_episode_that_searches_through_http_is_the_one_that_searches_in_this_process(
    embedded_url: str, preset: str
) -> None:
    """Each call of the assistant searches once at most, and a search is one call."""
    embedder = open_embedder("openai:lexical", EndpointConfig(base_url=embedded_url, attempts=1))
    there, here = await evaluated(EmbeddedModel(), preset, embedder), await evaluated(EmbeddedModel(), preset)
    assert [episode.stages for episode in there.episodes] == [episode.stages for episode in here.episodes]
    calls = {role: spend.calls for role, spend in there.ledger.by_role.items()}
    searches = calls.pop("embed")
    assert calls == {role: spend.calls for role, spend in here.ledger.by_role.items()}
    assert 0 < searches <= sum(calls[role] for role in ("reply", "answer", "probe")) + calls.get("write", 0) // 2
    await embedder.aclose()
