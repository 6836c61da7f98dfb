from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from datetime import date, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mnemotune.policies.lm import (
    CALL_ROLES,
    Budget,
    BudgetExhausted,
    Completion,
    Embedder,
    EndpointDown,
    LanguageModelError,
    Limits,
    Message,
    Metered,
    Request,
    Usage,
)
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.endpoint import Clock
from mnemotune.policies.lm.openai import OpenAIEmbedder, OpenAIModel, Prices

if TYPE_CHECKING:
    from .conftest import FakeTime, ScriptedServer

HELLO = (Message("system", "Be kind."), Message("user", "Hello there"))
REQUEST = Request(HELLO, "answer")
PRICES = Prices(input=2.0, output=8.0, date=date(2026, 1, 1))

NOBODY = "http://127.0.0.1:9/v1"
Connect = Callable[..., OpenAIModel]


@pytest.fixture
async def connect(server: ScriptedServer, fake_time: FakeTime) -> AsyncIterator[Connect]:
    """Make models of the scripted server in a time that stands still."""
    models: list[OpenAIModel] = []

    def make(**options: Any) -> OpenAIModel:
        defaults: dict[str, Any] = {"base_url": server.url, "clock": fake_time.clock}
        models.append(OpenAIModel("m", **defaults | options))
        return models[-1]

    yield make
    for model in models:
        await model.aclose()


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    kept = ResponseCache(tmp_path / "cache.db")
    yield kept
    kept.close()


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


async def test_json_mode_asks_for_a_json_object(server: ScriptedServer, connect: Connect) -> None:
    await connect().complete(Request(HELLO, "write", json_mode=True))
    assert server.asked[0].body["response_format"] == {"type": "json_object"}


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
    assert server.asked[0].body["max_completion_tokens"] == 2048
    assert "max_tokens" not in server.asked[0].body


async def test_extra_body_is_added_and_wins(server: ScriptedServer, connect: Connect) -> None:
    await connect(extra_body={"seed": 7, "temperature": 1.0}).complete(REQUEST)
    assert (server.asked[0].body["seed"], server.asked[0].body["temperature"]) == (7, 1.0)


async def test_a_longest_reply_stands_in_for_what_calls_ask_for(server: ScriptedServer, connect: Connect) -> None:
    model = connect(max_tokens=9000, prices=PRICES)
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


# Keys and addresses


async def test_the_address_and_the_key_come_from_the_environment(
    server: ScriptedServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    await connect(base_url=None).complete(REQUEST)
    assert server.asked[0].headers["authorization"] == "Bearer from-the-environment"


async def test_a_given_key_wins_over_the_environment(
    server: ScriptedServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    await connect(api_key="given").complete(REQUEST)
    assert server.asked[0].headers["authorization"] == "Bearer given"


@pytest.mark.parametrize("key", [None, ""])
def test_openai_itself_without_a_key_says_what_to_set(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
        monkeypatch.setenv("OPENAI_BASE_URL", key)
    with pytest.raises(LanguageModelError, match=r"api\.openai\.com.* set OPENAI_API_KEY, or set OPENAI_BASE_URL"):
        OpenAIModel("gpt-4.1-mini")


def test_an_address_without_http_is_refused_at_once() -> None:
    with pytest.raises(LanguageModelError, match="must start with http"):
        OpenAIModel("m", base_url="localhost:8000/v1")


@pytest.mark.parametrize("wrong", ["concurrency", "attempts", "timeout_seconds", "requests_per_minute"])
def test_limits_that_would_stop_everything_are_refused(wrong: str, connect: Connect) -> None:
    with pytest.raises(ValueError, match=wrong):
        connect(**{wrong: -1})


# Retries


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_passing_failure_is_asked_again(server: ScriptedServer, connect: Connect, status: int) -> None:
    server.refuse(status, times=2)
    assert (await connect().complete(REQUEST)).text == "fine"
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_lasting_failure_is_not_asked_again(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime, status: int
) -> None:
    server.refuse(status, "the server's own words", retry_after="1")
    with pytest.raises(LanguageModelError, match=f"model m: status {status}: the server's own words; ") as caught:
        await connect().complete(REQUEST)
    assert server.url in str(caught.value)
    assert len(server.asked) == 1
    assert fake_time.slept == []


async def test_backoff_doubles_up_to_the_last_attempt(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime
) -> None:
    server.refuse(503, "overloaded", times=6)
    with pytest.raises(LanguageModelError, match=r"status 503: overloaded; .* \(tried 6 times\)"):
        await connect().complete(REQUEST)
    assert len(server.asked) == 6
    assert fake_time.slept == [1, 2, 4, 8, 16]


async def test_backoff_stops_growing_at_a_minute(server: ScriptedServer, connect: Connect, fake_time: FakeTime) -> None:
    server.refuse(503, times=8)
    await connect(attempts=9).complete(REQUEST)
    assert fake_time.slept == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_jitter_takes_up_to_half_of_a_wait(server: ScriptedServer, connect: Connect, fake_time: FakeTime) -> None:
    fake_time.chance = 0.5
    server.refuse(503, times=2)
    await connect().complete(REQUEST)
    assert fake_time.slept == [0.75, 1.5]


async def test_one_attempt_is_no_retry(server: ScriptedServer, connect: Connect) -> None:
    server.refuse(500)
    with pytest.raises(LanguageModelError, match=r"see its log, or run again later$"):
        await connect(attempts=1).complete(REQUEST)
    assert len(server.asked) == 1


async def test_a_429_with_retry_after_waits_as_long_as_it_says(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime
) -> None:
    server.refuse(429, retry_after="17")
    server.refuse(429, retry_after="2.5")
    await connect().complete(REQUEST)
    assert fake_time.slept == [17, 2.5]


async def test_retry_after_may_be_a_date(server: ScriptedServer, connect: Connect, fake_time: FakeTime) -> None:
    server.refuse(503, retry_after=format_datetime(fake_time.now + timedelta(seconds=42), usegmt=True))
    await connect().complete(REQUEST)
    assert fake_time.slept == [42]


@pytest.mark.parametrize("said", ["0", "soon", "-5", "nan", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 99 Xyz 2026"])
async def test_a_retry_after_that_says_nothing_leaves_the_backoff(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime, said: str
) -> None:
    server.refuse(429, retry_after=said)
    await connect().complete(REQUEST)
    assert fake_time.slept == [1]


async def test_a_retry_after_of_an_hour_ends_the_call_and_says_why(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime
) -> None:
    server.refuse(429, "daily limit", retry_after="3600")
    with pytest.raises(LanguageModelError, match=r"daily limit; it asks to wait 3600 s, .* 300 s: run again later"):
        await connect().complete(REQUEST)
    assert fake_time.slept == []


async def test_an_empty_account_is_not_asked_again(server: ScriptedServer, connect: Connect) -> None:
    server.answer({"error": {"message": "no quota", "code": "insufficient_quota"}}, status=429)
    with pytest.raises(EndpointDown, match="no quota; add credit"):
        await connect().complete(REQUEST)
    assert len(server.asked) == 1


async def test_a_server_that_stays_silent_is_given_up_after_its_time(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime
) -> None:
    server.hold()
    with pytest.raises(LanguageModelError, match=r"no reply within 0\.1 s; raise timeout_seconds .*\(tried 2 times\)"):
        await connect(timeout_seconds=0.1, attempts=2).complete(REQUEST)
    assert fake_time.slept == [1]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_an_endpoint_that_refuses_key_or_model_is_down_for_every_call(
    server: ScriptedServer, connect: Connect, status: int
) -> None:
    server.refuse(status)
    with pytest.raises(EndpointDown):
        await connect().complete(REQUEST)


@pytest.mark.parametrize("status", [400, 413, 422, 500])
async def test_an_endpoint_that_refuses_one_request_may_take_the_next(
    server: ScriptedServer, connect: Connect, status: int
) -> None:
    server.refuse(status)
    with pytest.raises(LanguageModelError) as caught:
        await connect(attempts=1).complete(REQUEST)
    assert not isinstance(caught.value, EndpointDown)


async def test_a_reply_after_a_timeout_is_taken(server: ScriptedServer, connect: Connect) -> None:
    server.hold()
    asking = asyncio.create_task(connect(timeout_seconds=0.5).complete(REQUEST))
    await server.has_been_asked(2)
    server.release()
    assert (await asking).text == "fine"


async def test_a_connection_that_was_never_there_is_explained_at_once(connect: Connect, fake_time: FakeTime) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(EndpointDown, match=r"no connection .* check that the server runs"):
            await connect(base_url=url, attempts=3).complete(REQUEST)
    assert fake_time.slept == []


async def test_a_connection_that_is_lost_is_explained_at_once_and_may_be_billed(
    connect: Connect, fake_time: FakeTime
) -> None:
    """Only timeouts and what the server says is passing are asked again."""
    asked = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        budget = Budget(Limits())
        metered = Metered(connect(base_url=url), budget=budget)
        with pytest.raises(LanguageModelError, match=r"the connection was lost .*; see the server's log$") as caught:
            await metered.complete(REQUEST)
    assert not isinstance(caught.value, EndpointDown), "the server may still be there for the next call"
    assert len(asked) == 1
    assert fake_time.slept == []
    assert budget.tokens == metered.worst_case(REQUEST).tokens


async def test_a_connection_that_was_never_there_bills_nothing(connect: Connect) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        budget = Budget(Limits())
        metered = Metered(connect(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1"), budget=budget)
        with pytest.raises(EndpointDown):
            await metered.complete(REQUEST)
    assert (budget.calls, budget.tokens) == (1, 0)


async def test_attempts_that_time_out_count_against_the_budget_and_end_with_it(
    server: ScriptedServer, connect: Connect
) -> None:
    server.hold()
    model = connect(timeout_seconds=0.05)
    budget = Budget(Limits(tokens=3 * model.worst_case(REQUEST).tokens))
    with pytest.raises(BudgetExhausted, match="tokens"):
        await Metered(model, budget=budget).complete(REQUEST)
    assert budget.tokens == budget.limits.tokens
    await server.has_been_asked(3)


async def test_a_refusal_is_an_answer_and_costs_nothing(server: ScriptedServer, connect: Connect) -> None:
    server.refuse(429, times=3)
    budget = Budget(Limits())
    await Metered(connect(), budget=budget).complete(REQUEST)
    assert (budget.calls, budget.tokens) == (1, 15)


# What errors advise


@pytest.mark.parametrize(
    ("status", "message", "advice"),
    [
        (401, "Incorrect API key provided", "check OPENAI_API_KEY"),
        (403, "Project has no access", "OPENAI_API_KEY may use this model"),
        (404, "The model `m` does not exist.", "check the model's name"),
        (400, "This model's maximum context length is 8192 tokens.", "lower the policy's buffer_size"),
        (400, "the request exceeds the available context size", "read.budget_tokens"),
        (413, "Payload too large", "lower the policy's buffer_size"),
        (400, "Use 'max_completion_tokens' instead.", 'set max_tokens_field to "max_completion_tokens"'),
        (422, "what is this", "extra_body"),
    ],
)
async def test_a_refusal_says_what_to_do(
    server: ScriptedServer, connect: Connect, status: int, message: str, advice: str
) -> None:
    server.refuse(status, message)
    with pytest.raises(LanguageModelError) as caught:
        await connect().complete(REQUEST)
    assert f"{message}; " in str(caught.value)
    assert advice in str(caught.value)


@pytest.mark.parametrize("body", [{"error": "model not pulled"}, {"detail": "model not pulled"}, "model not pulled"])
async def test_other_servers_ways_to_word_an_error_are_read(
    server: ScriptedServer, connect: Connect, body: object
) -> None:
    server.answer(body, status=404)
    with pytest.raises(LanguageModelError, match="model not pulled"):
        await connect().complete(REQUEST)


async def test_an_html_page_of_a_proxy_is_shortened_to_its_text(server: ScriptedServer, connect: Connect) -> None:
    page = f"<html><body><h1>Bad Gateway</h1>{'<hr>' * 50}{'long ' * 500}</body></html>"
    server.answer(page, status=502, media_type="text/html")
    with pytest.raises(LanguageModelError, match=r"status 502: Bad Gateway long long") as caught:
        await connect(attempts=1).complete(REQUEST)
    assert len(str(caught.value)) < 500


async def test_a_password_in_the_address_is_not_shown(server: ScriptedServer, connect: Connect) -> None:
    server.refuse(404)
    with pytest.raises(LanguageModelError) as caught:
        await connect(base_url=server.url.replace("//", "//me:secret@")).complete(REQUEST)
    assert "secret" not in str(caught.value)


# Malformed replies


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"choices": None},
        {"error": {"message": "upstream failed"}},
        {"choices": [{"message": {"content": ["parts"]}}]},
        {"choices": [{"text": "not a chat"}]},
        [],
        None,
    ],
)
async def test_a_reply_without_a_choice_is_an_error_that_shows_it(
    server: ScriptedServer, connect: Connect, body: object
) -> None:
    server.answer(body)
    with pytest.raises(LanguageModelError, match="the reply holds no choice with a text: "):
        await connect().complete(REQUEST)
    assert len(server.asked) == 1


@pytest.mark.parametrize("media_type", ["application/json", "text/html"])
async def test_a_reply_that_is_not_json_is_an_error_that_shows_it(
    server: ScriptedServer, connect: Connect, media_type: str
) -> None:
    server.answer("<p>Welcome to the wrong door", media_type=media_type)
    with pytest.raises(LanguageModelError, match="the reply is not JSON: Welcome to the wrong door; check base_url"):
        await connect().complete(REQUEST)


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
    assert (await connect(prices=PRICES).complete(REQUEST)).usage == Usage(1_000_000, 500_000, cost_usd=6.0)


async def test_an_unknown_price_is_none_and_never_zero(connect: Connect) -> None:
    model = connect()
    assert (await model.complete(REQUEST)).usage.cost_usd is None
    assert model.worst_case(REQUEST).cost_usd is None


@pytest.mark.parametrize("usage", [None, {}, "many", {"prompt_tokens": 0, "completion_tokens": None}])
async def test_tokens_that_the_server_does_not_count_are_estimated_from_the_text(
    server: ScriptedServer, connect: Connect, usage: object
) -> None:
    server.say("nine char", usage=usage)
    usage_said = (await connect(prices=PRICES).complete(REQUEST)).usage
    assert (usage_said.input_tokens, usage_said.output_tokens) == (5, 3)  # 19 and 9 characters
    assert usage_said.cost_usd == pytest.approx((5 * 2 + 3 * 8) / 1e6)


async def test_a_budget_in_dollars_is_never_overshot(server: ScriptedServer, connect: Connect) -> None:
    model = connect(prices=PRICES)
    budget = Budget(Limits(usd=0.017))
    metered = Metered(model, budget=budget)
    for _ in range(100):
        with contextlib.suppress(BudgetExhausted):
            await metered.complete(REQUEST)
    assert budget.usd is not None
    assert 0 < budget.usd <= 0.017
    assert len(server.asked) < 100
    assert metered.ledger.by_role["answer"].calls == len(server.asked)


# Pace


async def test_no_more_calls_are_under_way_than_allowed(server: ScriptedServer, connect: Connect) -> None:
    server.hold()
    model = connect(concurrency=3)
    asking = [asyncio.create_task(model.complete(REQUEST)) for _ in range(10)]
    await server.has_been_asked(3)
    server.release()
    await asyncio.gather(*asking)
    assert len(server.asked) == 10
    assert server.peak == 3


async def test_requests_per_minute_spreads_calls_out_and_counts_retries(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime
) -> None:
    server.refuse(429, retry_after="7")
    model = connect(requests_per_minute=30)
    for _ in range(3):
        await model.complete(REQUEST)
    assert fake_time.slept == [7, 2, 4, 6]  # the clock stands still, so that every call starts 2 s after the last


# Cache


async def test_a_second_run_asks_nothing(server: ScriptedServer, connect: Connect, tmp_path: Path) -> None:
    requests = [Request((Message("user", text),), "reply") for text in ("one", "two")]
    runs = []
    for _ in range(2):
        cache = ResponseCache(tmp_path / "cache.db")
        model = connect(cache=cache, prices=PRICES)
        runs.append([await model.complete(request) for request in requests])
        cache.close()
    assert len(server.asked) == 2
    assert [completion.text for completion in runs[1]] == [completion.text for completion in runs[0]]
    assert runs[0][0].usage == Usage(10, 5, cost_usd=PRICES.cost(10, 5))
    assert runs[1][0].usage == Usage(10, 5, cost_usd=0.0, cached=True)


@pytest.mark.parametrize(
    "other",
    [
        Request(HELLO, "answer", repeat=1),
        Request(HELLO, "answer", json_mode=True),
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
    model = connect(cache=cache, prices=PRICES)
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


# Cancellation


async def test_a_cancelled_call_ends_and_gives_its_slot_back(server: ScriptedServer, connect: Connect) -> None:
    server.hold()
    model = connect(concurrency=1)
    asking = asyncio.create_task(model.complete(REQUEST))
    await server.has_been_asked(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    server.release()
    assert (await asyncio.wait_for(model.complete(REQUEST), 5)).text == "fine"


async def test_a_call_cancelled_while_it_waits_to_retry_gives_its_slot_back(
    server: ScriptedServer, connect: Connect
) -> None:
    waiting = asyncio.Event()

    async def sleep_for_ever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    server.refuse(500)
    model = connect(concurrency=1, clock=Clock(sleep=sleep_for_ever))
    asking = asyncio.create_task(model.complete(REQUEST))
    await asyncio.wait_for(waiting.wait(), 5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await asyncio.wait_for(model.complete(REQUEST), 5)).text == "fine"


async def test_cancelling_the_one_who_asks_leaves_those_who_wait_for_the_same_answer(
    server: ScriptedServer, connect: Connect, cache: ResponseCache
) -> None:
    server.hold()
    model = connect(cache=cache)
    first, second = (asyncio.create_task(model.complete(REQUEST)) for _ in range(2))
    await server.has_been_asked(1)
    first.cancel()
    await server.has_been_asked(2)
    server.release()
    assert (await second).text == "fine"
    assert first.cancelled()


# Embedding


def vectors(*rows: list[float], tokens: int = 6) -> dict[str, object]:
    data = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
    return {"data": data[::-1], "usage": {"prompt_tokens": tokens}}


@pytest.fixture
async def embedder(server: ScriptedServer, fake_time: FakeTime) -> AsyncIterator[OpenAIEmbedder]:
    made = OpenAIEmbedder("e", base_url=server.url, clock=fake_time.clock, batch_size=2, prices=PRICES)
    yield made
    await made.aclose()


async def test_rows_follow_the_texts_with_length_one(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    conforming: Embedder = embedder
    server.answer(vectors([3.0, 4.0], [0.0, 2.0]))
    server.answer(vectors([-5.0, 0.0]))
    rows = await conforming.embed(["a", "b", "c"])
    assert rows.dtype == np.float32
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]]))
    assert [asked.body for asked in server.asked] == [
        {"model": "e", "input": ["a", "b"]},
        {"model": "e", "input": ["c"]},
    ]
    assert {(asked.path, asked.headers["x-mnemotune-role"]) for asked in server.asked} == {("/v1/embeddings", "embed")}


async def test_embedding_calls_are_in_the_embedders_own_ledger(
    server: ScriptedServer, embedder: OpenAIEmbedder
) -> None:
    server.answer(vectors([1.0], [1.0], tokens=30))
    server.answer(vectors([1.0], tokens=20))
    await embedder.embed(["a", "b", "c"])
    spend = embedder.ledger.by_role["embed"]
    assert (spend.calls, spend.input_tokens, spend.output_tokens) == (2, 50, 0)
    assert spend.cost_usd == pytest.approx(100e-6)


async def test_an_unknown_price_of_embedding_is_none(server: ScriptedServer) -> None:
    embedder = OpenAIEmbedder("e", base_url=server.url)
    server.answer(vectors([1.0]))
    await embedder.embed(["a"])
    assert embedder.ledger.total.cost_usd is None
    await embedder.aclose()


async def test_a_blank_text_has_a_row_of_zeros_and_is_not_sent_blank(
    server: ScriptedServer, embedder: OpenAIEmbedder
) -> None:
    server.answer(vectors([2.0, 0.0], [1.0, 1.0]))
    rows = await embedder.embed(["a", " \n"])
    assert rows.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert server.asked[0].body["input"] == ["a", "-"]


async def test_a_vector_of_zeros_stays_zero(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    server.answer(vectors([0.0, 0.0]))
    assert (await embedder.embed(["a"])).tolist() == [[0.0, 0.0]]


async def test_no_texts_cost_no_call(server: ScriptedServer, embedder: OpenAIEmbedder) -> None:
    assert (await embedder.embed([])).shape == (0, 0)
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
        {"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]},
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
