"""What an OpenAI-compatible model is sent, and what is made of its replies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mnemotune.policies.forms import ANY_OBJECT
from mnemotune.policies.lm import (
    CALL_ROLES,
    Budget,
    BudgetExhausted,
    Completion,
    Embedder,
    LanguageModelError,
    Limits,
    Message,
    Metered,
    Request,
    Usage,
)
from mnemotune.policies.lm.base import MOST_TEXTS, Tool, ToolCall
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.chain import chain
from mnemotune.policies.lm.openai import OpenAIEmbedder, OpenAIModel
from mnemotune.policies.lm.prices import Prices

if TYPE_CHECKING:
    from .conftest import Connect, FakeTime, ScriptedServer

HELLO = (Message("system", "Be kind."), Message("user", "Hello there"))
REQUEST = Request(HELLO, "answer")
PRICES = Prices(input=2.0, output=8.0, date=date(2026, 1, 1))

NOBODY = "http://127.0.0.1:9/v1"


# What is sent


async def test_a_request_becomes_a_chat_completion(server: ScriptedServer, connect: Connect) -> None:
    completion = await connect().complete(Request(HELLO, "reply", temperature=0.7, max_tokens=99))
    assert completion.text == "fine"
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello there"}],
        "temperature": 0.7,
        "max_tokens": 99,
    }


@pytest.mark.parametrize("text", ["", 'a "quote"', "line\nbreak", "ünïcödé 🌱", "\x00\x1f", "half: \ud83d"])
async def test_any_text_arrives_as_it_is(server: ScriptedServer, connect: Connect, text: str) -> None:
    await connect().complete(Request((Message("system", text), Message("user", text)), "reply"))
    assert [message["content"] for message in server.asked[0].body["messages"]] == [text, text]


async def test_every_request_says_its_role(server: ScriptedServer, connect: Connect) -> None:
    model = connect()
    for role in CALL_ROLES:
        await model.complete(Request(HELLO, role))
    assert [asked.headers["x-mnemotune-role"] for asked in server.asked] == list(CALL_ROLES)


async def test_a_retry_says_its_role_too(server: ScriptedServer, connect: Connect) -> None:
    server.refuse(500)
    await connect().complete(Request(HELLO, "probe"))
    assert [asked.headers["x-mnemotune-role"] for asked in server.asked] == ["probe", "probe"]


async def test_max_tokens_can_go_by_its_newer_name(server: ScriptedServer, connect: Connect) -> None:
    await connect(max_tokens_field="max_completion_tokens").complete(REQUEST)
    assert server.asked[0].body["max_completion_tokens"] == 512
    assert "max_tokens" not in server.asked[0].body


async def test_extra_body_is_added_and_wins(server: ScriptedServer, connect: Connect) -> None:
    await connect(extra_body={"seed": 7, "temperature": 1.0}).complete(REQUEST)
    assert (server.asked[0].body["seed"], server.asked[0].body["temperature"]) == (7, 1.0)


async def test_a_longest_reply_stands_in_for_what_calls_ask_for(server: ScriptedServer, connect: Connect) -> None:
    model = connect(max_tokens=9000, prices={"m": PRICES})
    await model.complete(REQUEST)
    assert server.asked[0].body["max_tokens"] == 9000
    worst = model.worst_case(REQUEST)
    assert worst.output_tokens == 9000
    assert worst.cost_usd == pytest.approx((worst.input_tokens * 2 + 9000 * 8) / 1e6)


@pytest.mark.parametrize("key", ["model", "messages", "n", "stream", "max_tokens", "max_completion_tokens"])
def test_extra_body_cannot_change_what_the_accounting_rests_on(connect: Connect, key: str) -> None:
    with pytest.raises(ValueError, match=f"extra_body cannot hold {key}"):
        connect(extra_body={key: 2})
    with pytest.raises(ValueError, match=f"extra_body cannot hold {key}"):
        OpenAIEmbedder("e", base_url=NOBODY, extra_body={key: 2})


# Malformed replies


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"choices": None},
        {"choices": [{"message": {"content": ["parts"]}}]},
        {"choices": [{"text": "not a chat"}]},
        [],
        None,
    ],
)
async def test_a_reply_without_a_choice_is_asked_for_again_and_then_an_error_that_shows_it(
    server: ScriptedServer, connect: Connect, body: object
) -> None:
    server.answer(body)
    assert (await connect().complete(REQUEST)).text == "fine"
    assert len(server.asked) == 2
    server.poison("Hello there", body)
    with pytest.raises(LanguageModelError, match=r"the reply holds no choice with a text: .*tried 8 times"):
        await connect().complete(REQUEST)


async def test_an_error_inside_a_good_reply_is_asked_again_and_then_said(
    server: ScriptedServer, connect: Connect
) -> None:
    server.answer({"error": {"message": "upstream failed", "code": 502}})
    assert (await connect().complete(REQUEST)).text == "fine"
    server.poison("Hello there", {"error": "upstream failed"})
    with pytest.raises(LanguageModelError, match=r"status 500: upstream failed; .*tried 8 times"):
        await connect().complete(REQUEST)


@pytest.mark.parametrize("media_type", ["application/json", "text/html"])
async def test_a_reply_that_is_not_json_is_an_error_that_shows_it(
    server: ScriptedServer, connect: Connect, media_type: str
) -> None:
    server.poison("Hello there", "<p>Welcome to the wrong door", media_type=media_type)
    with pytest.raises(LanguageModelError, match=r"the reply is not JSON; check base_url.*: Welcome to the wrong door"):
        await connect().complete(REQUEST)


SEARCH = Tool("search", "Looks something up.", '{"type": "object", "properties": {"q": {"type": "string"}}}')
CALLS = [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "boats"}'}}]


async def test_tools_are_sent_and_their_calls_come_back_also_from_the_cache(
    server: ScriptedServer, connect: Connect, cache: ResponseCache
) -> None:
    server.answer({"choices": [{"message": {"content": None, "tool_calls": CALLS}}], "usage": {"prompt_tokens": 9}})
    request = replace(REQUEST, tools=(SEARCH,))
    first = await connect(cache=cache).complete(request)
    assert server.asked[0].body["tools"] == [SEARCH.as_json()]
    assert (first.text, first.tool_calls) == ("", (ToolCall("c1", "search", '{"q": "boats"}'),))
    assert first.usage.output_tokens > 0
    again = await connect(cache=cache).complete(request)
    assert (again.tool_calls, again.usage.cached, len(server.asked)) == (first.tool_calls, True, 1)
    assert (await connect(cache=cache).complete(REQUEST)).text == "fine"


async def test_calls_without_an_id_or_with_an_object_of_arguments_are_read(
    server: ScriptedServer, connect: Connect
) -> None:
    calls = [{"function": {"name": "search", "arguments": {"q": "boats"}}}, {**CALLS[0], "id": None}]
    server.answer({"choices": [{"message": {"content": None, "tool_calls": calls}}]})
    read = (await connect().complete(replace(REQUEST, tools=(SEARCH,)))).tool_calls
    assert read == tuple(ToolCall(f"call_{i}", "search", '{"q": "boats"}') for i in range(2))


async def test_calls_that_nobody_wanted_are_not_read(server: ScriptedServer, connect: Connect) -> None:
    server.answer({"choices": [{"message": {"content": "Hello.", "tool_calls": 7}}]})
    completion = await connect().complete(REQUEST)
    assert (completion.text, completion.tool_calls) == ("Hello.", ())


@pytest.mark.parametrize("calls", [[{}], ["search"], [{"id": "c1", "function": {"name": "search"}}], 7])
async def test_a_tool_call_that_is_none_is_asked_for_again(
    server: ScriptedServer, connect: Connect, calls: object
) -> None:
    server.answer({"choices": [{"message": {"content": "", "tool_calls": calls}}]})
    assert (await connect().complete(replace(REQUEST, tools=(SEARCH,)))).text == "fine"


@pytest.mark.parametrize("content", [None, ""])
async def test_an_empty_reply_is_an_empty_text_that_is_counted(
    server: ScriptedServer, connect: Connect, content: str | None
) -> None:
    server.say(content, usage={"prompt_tokens": 10, "completion_tokens": 3})
    assert await connect().complete(REQUEST) == Completion("", Usage(10, 3, cost_usd=None))


async def test_half_a_surrogate_pair_does_not_reach_memory(
    server: ScriptedServer, connect: Connect, cache: ResponseCache
) -> None:
    server.answer('{"choices": [{"message": {"content": "a \\ud83d b \\ud83c\\udf31"}}]}')
    assert (await connect(cache=cache).complete(REQUEST)).text == "a ? b \N{SEEDLING}"


# Usage and cost


async def test_tokens_are_the_servers_and_priced_per_million(server: ScriptedServer, connect: Connect) -> None:
    server.say("yes", usage={"prompt_tokens": 1_000_000, "completion_tokens": 500_000})
    assert (await connect(prices={"m": PRICES}).complete(REQUEST)).usage == Usage(1_000_000, 500_000, cost_usd=6.0)


async def test_an_unknown_price_is_none_and_never_zero(connect: Connect) -> None:
    model = connect()
    assert (await model.complete(REQUEST)).usage.cost_usd is None
    assert model.worst_case(REQUEST).cost_usd is None


@pytest.mark.parametrize("usage", [None, {}, "many", {"prompt_tokens": 0, "completion_tokens": None}])
async def test_tokens_that_the_server_does_not_count_are_estimated_from_the_text(
    server: ScriptedServer, connect: Connect, usage: object
) -> None:
    server.say("nine char", usage=usage)
    usage_said = (await connect(prices={"m": PRICES}).complete(REQUEST)).usage
    assert (usage_said.input_tokens, usage_said.output_tokens) == (5, 3)  # 19 and 9 characters
    assert usage_said.cost_usd == pytest.approx((5 * 2 + 3 * 8) / 1e6)


async def test_a_budget_in_dollars_is_never_overshot(server: ScriptedServer, connect: Connect) -> None:
    model = connect(prices={"m": PRICES})
    budget = Budget(Limits(usd=0.005))
    metered = Metered(model, budget=budget)
    for _ in range(100):
        with contextlib.suppress(BudgetExhausted):
            await metered.complete(REQUEST)
    assert budget.usd is not None
    assert 0 < budget.usd <= 0.005
    assert len(server.asked) < 100
    assert metered.ledger.by_role["answer"].calls == len(server.asked)


# Cache


async def test_a_second_run_asks_nothing(server: ScriptedServer, connect: Connect, tmp_path: Path) -> None:
    requests = [Request((Message("user", text),), "reply") for text in ("one", "two")]
    runs = []
    for _ in range(2):
        cache = ResponseCache(tmp_path / "cache.db")
        model = connect(cache=cache, prices={"m": PRICES})
        runs.append([await model.complete(request) for request in requests])
        cache.close()
    assert len(server.asked) == 2
    assert [completion.text for completion in runs[1]] == [completion.text for completion in runs[0]]
    assert runs[0][0].usage == Usage(10, 5, cost_usd=PRICES.cost(10, 5))
    assert runs[1][0].usage == Usage(10, 5, cost_usd=0.0, cached=True, saved_usd=PRICES.cost(10, 5))


@pytest.mark.parametrize(
    "other",
    [
        Request(HELLO, "answer", repeat=1),
        Request(HELLO, "answer", form=ANY_OBJECT),
        Request(HELLO, "answer", temperature=0.1),
        Request(HELLO, "answer", max_tokens=1),
        Request(HELLO[1:], "answer"),
        Request((Message("user", "Be kind."), HELLO[1]), "answer"),
    ],
)
async def test_everything_that_the_answer_depends_on_separates(
    server: ScriptedServer, connect: Connect, cache: ResponseCache, other: Request
) -> None:
    model = connect(cache=cache)
    await model.complete(REQUEST)
    assert not (await model.complete(other)).usage.cached
    assert len(server.asked) == 2


async def test_the_role_does_not_separate(server: ScriptedServer, connect: Connect, cache: ResponseCache) -> None:
    model = connect(cache=cache)
    await model.complete(Request(HELLO, "answer"))
    assert (await model.complete(Request(HELLO, "probe"))).usage.cached
    assert len(server.asked) == 1


async def test_models_endpoints_and_extras_share_a_cache_without_sharing_answers(
    server: ScriptedServer, connect: Connect, cache: ResponseCache
) -> None:
    other = OpenAIModel("other", base_url=server.url, cache=cache)
    models = [connect(cache=cache), connect(cache=cache, extra_body={"seed": 1}), other]
    models.append(connect(cache=cache, base_url=server.url.replace("/v1", "/v2")))
    completions = [await model.complete(REQUEST) for model in models]
    await other.aclose()
    assert not any(completion.usage.cached for completion in completions)


async def test_a_call_adds_to_the_chain_once_however_often_it_is_metered_and_not_from_the_cache(
    connect: Connect, cache: ResponseCache
) -> None:
    model, before = Metered(Metered(connect(cache=cache), budget=Budget(Limits()))), chain().calls
    for _ in range(3):
        await model.complete(REQUEST)
    assert chain().calls == before + 1


async def test_a_failure_is_not_kept(server: ScriptedServer, connect: Connect, cache: ResponseCache) -> None:
    server.refuse(400)
    model = connect(cache=cache)
    with pytest.raises(LanguageModelError):
        await model.complete(REQUEST)
    assert (await model.complete(REQUEST)).text == "fine"


async def test_closing_a_model_leaves_the_cache_to_others(connect: Connect, cache: ResponseCache) -> None:
    model = connect(cache=cache)
    await model.complete(REQUEST)
    await model.aclose()
    assert (await connect(cache=cache).complete(REQUEST)).usage.cached


async def test_the_same_request_five_times_at_once_is_asked_once(
    server: ScriptedServer, connect: Connect, cache: ResponseCache
) -> None:
    server.hold()
    model = connect(cache=cache, prices={"m": PRICES})
    asking = [asyncio.create_task(model.complete(REQUEST)) for _ in range(5)]
    await server.has_been_asked(1)
    server.release()
    completions = await asyncio.gather(*asking)
    assert len(server.asked) == 1
    assert {completion.text for completion in completions} == {"fine"}
    assert sorted(completion.usage.cached for completion in completions) == [False, True, True, True, True]


async def test_without_a_cache_the_same_request_is_asked_every_time(server: ScriptedServer, connect: Connect) -> None:
    model = connect()
    await asyncio.gather(*(model.complete(REQUEST) for _ in range(3)))
    assert len(server.asked) == 3


# Embedding


def vectors(*rows: list[float], tokens: int = 6) -> dict[str, object]:
    data = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
    return {"data": data[::-1], "usage": {"prompt_tokens": tokens}}


@pytest.fixture
async def embedder(server: ScriptedServer, fake_time: FakeTime) -> AsyncIterator[OpenAIEmbedder]:
    made = OpenAIEmbedder("e", base_url=server.url, clock=fake_time.clock, prices={"e": PRICES})
    yield made
    await made.aclose()


async def test_rows_follow_the_texts_with_length_one(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    conforming: Embedder = embedder
    server.answer(vectors(*[[3.0, 4.0], [0.0, 2.0]] * (MOST_TEXTS // 2)))
    server.answer(vectors([-5.0, 0.0]))
    rows = (await conforming.embed([*"ab" * (MOST_TEXTS // 2), "c"])).vectors
    assert rows.dtype == np.float32
    assert rows[[0, 1, -1]] == pytest.approx(np.array([[0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]]))
    assert [asked.body for asked in server.asked] == [
        {"model": "e", "input": [*"ab" * (MOST_TEXTS // 2)]},
        {"model": "e", "input": ["c"]},
    ]
    assert {(asked.path, asked.headers["x-mnemotune-role"]) for asked in server.asked} == {("/v1/embeddings", "embed")}


async def test_an_embedding_says_what_it_took(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    server.answer(vectors(*[[1.0]] * MOST_TEXTS, tokens=30))
    server.answer(vectors([1.0], tokens=20))
    texts = ["a"] * (MOST_TEXTS + 1)
    usage = (await embedder.embed(texts)).usage
    assert usage == Usage(50, 0, pytest.approx(100e-6))
    assert usage.tokens < embedder.worst_case(texts).tokens


async def test_an_unknown_price_of_embedding_is_none(server: ScriptedServer) -> None:
    embedder = OpenAIEmbedder("e", base_url=server.url)
    server.answer(vectors([1.0]))
    usage = (await embedder.embed(["a"])).usage
    assert usage is not None
    assert usage.cost_usd is None
    await embedder.aclose()


async def test_each_text_is_paid_for_once_whatever_comes_with_it(server: ScriptedServer, tmp_path: Path) -> None:
    """A second embedder is a resumed run."""
    cache = ResponseCache(tmp_path / "cache.db")
    first, second = (OpenAIEmbedder("e", base_url=server.url, prices={"e": PRICES}, cache=cache) for _ in range(2))
    server.answer(vectors([3.0, 4.0], [0.0, 2.0], tokens=9))
    before = await first.embed(["a", "b", "a"])
    server.answer(vectors([-1.0, 0.0], tokens=5))
    again = await second.embed(["b", "c"])
    known = await second.embed(["c", "a"])
    assert [asked.body["input"] for asked in server.asked] == [["a", "b"], ["c"]]
    assert before.vectors == pytest.approx(np.array([[0.6, 0.8], [0.0, 1.0], [0.6, 0.8]]))
    assert np.array_equal(known.vectors, [[-1.0, 0.0], before.vectors[0]])
    assert before.usage is not None
    assert again.usage is not None
    assert known.usage is not None
    assert (before.usage.tokens, again.usage.tokens, known.usage.tokens) == (9, 10, 9)  # of 9, b has 5
    assert again.usage.cost_usd == pytest.approx(10e-6)
    assert known.usage.cached
    assert known.usage.cost_usd == 0
    await first.aclose()
    await second.aclose()
    cache.close()


async def test_whoever_embeds_the_same_text_meanwhile_waits_for_its_vector(
    server: ScriptedServer, tmp_path: Path
) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    embedder = OpenAIEmbedder("e", base_url=server.url, cache=cache)
    server.answer(vectors([1.0], [2.0]))
    found = await asyncio.gather(*(embedder.embed(texts) for texts in (["a", "b"], ["b", "a"], ["b"])))
    assert len(server.asked) == 1
    assert [len(one.vectors) for one in found] == [2, 2, 1]
    await embedder.aclose()
    cache.close()


async def test_a_blank_text_has_a_row_of_zeros_and_is_not_sent_blank(
    server: ScriptedServer, embedder: OpenAIEmbedder
) -> None:
    server.answer(vectors([2.0, 0.0], [1.0, 1.0]))
    rows = (await embedder.embed(["a", " \n"])).vectors
    assert rows.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert server.asked[0].body["input"] == ["a", "-"]


async def test_a_vector_of_zeros_stays_zero(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    server.answer(vectors([0.0, 0.0]))
    assert (await embedder.embed(["a"])).vectors.tolist() == [[0.0, 0.0]]


async def test_no_texts_cost_no_call(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    assert (await embedder.embed([])).vectors.shape == (0, 0)
    assert server.asked == []


async def test_embedding_retries_like_chat(
    server: ScriptedServer, embedder: OpenAIEmbedder, fake_time: FakeTime
) -> None:
    server.refuse(429, retry_after="9")
    server.answer(vectors([1.0]))
    await embedder.embed(["a"])
    assert fake_time.slept == [9]


@pytest.mark.parametrize(
    "body",
    [
        vectors([1.0]),
        vectors([1.0], [1.0, 2.0]),
        vectors([1.0], [float("nan")]),
        {"data": [[1.0], [1.0]]},
        {"data": None},
        {},
        [],
    ],
)
async def test_vectors_that_do_not_fit_the_texts_are_an_error(
    server: ScriptedServer, embedder: OpenAIEmbedder, body: object
) -> None:
    server.answer(body)
    with pytest.raises(LanguageModelError, match="model e: the reply does not hold 2 vectors"):
        await embedder.embed(["a", "b"])
