"""One endpoint: keys, pacing, retries, and errors that say what to do."""

from __future__ import annotations

import asyncio
import base64
import socket
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    EndpointDown,
    LanguageModelError,
    Limits,
    Message,
    Metered,
    Refused,
    Request,
)
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.chain import chain
from mnemotune.policies.lm.endpoint import MOST_OUTAGES_OF_A_CALL, EndpointConfig
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.lm.outage import Clock, EndpointSilent

if TYPE_CHECKING:
    from .conftest import Connect, FakeTime, ScriptedServer

HELLO = (Message("system", "Be kind."), Message("user", "Hello there"))
REQUEST = Request(HELLO, "answer")


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


@pytest.mark.parametrize("key", ["a\nb", "a\0b", "ключ"])
def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(LanguageModelError, match="OPENAI_API_KEY holds a line break or another character") as caught:
        OpenAIModel("m", api_key=key)
    assert key not in str(caught.value)


async def test_blanks_around_a_key_are_no_part_of_it(server: ScriptedServer, connect: Connect) -> None:
    await connect(api_key=" sk-1\n").complete(REQUEST)
    assert server.asked[0].headers["authorization"] == "Bearer sk-1"


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
    server.poison("Hello there", {"error": "overloaded"}, status=503)
    with pytest.raises(LanguageModelError, match=r"status 503: overloaded; .* \(tried 8 times\)"):
        await connect().complete(REQUEST)
    assert fake_time.slept == [0.25, 0.5, 1, 2, 4, 8, 16]
    pings = [asked.body["messages"] for asked in server.asked if asked.body["max_tokens"] == 1]
    assert len(pings) == 3, "after each third failure and the last it is asked whether anything gets through"
    assert len(server.asked) == 8 + len(pings)


async def test_backoff_stops_growing_at_a_minute(server: ScriptedServer, connect: Connect, fake_time: FakeTime) -> None:
    server.poison("Hello there", "no", status=503)
    with pytest.raises(LanguageModelError, match="tried 11 times"):
        await connect(attempts=11).complete(REQUEST)
    assert fake_time.slept == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60]


async def test_jitter_takes_up_to_half_of_a_wait(server: ScriptedServer, connect: Connect, fake_time: FakeTime) -> None:
    fake_time.chance = 0.5
    server.refuse(503, times=2)
    await connect().complete(REQUEST)
    assert fake_time.slept == [0.1875, 0.375]


async def test_one_attempt_is_no_retry(server: ScriptedServer, connect: Connect) -> None:
    server.poison("Hello there", "no", status=500)
    with pytest.raises(LanguageModelError, match=r"see its log, or run again later$"):
        await connect(attempts=1).complete(REQUEST)
    assert len(server.asked) == 2, "the request and a ping"


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
    assert fake_time.slept == [0.25]


async def test_a_long_retry_after_is_waited_for_and_said_aloud(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse(429, "minute limit", retry_after="600")
    assert (await connect().complete(REQUEST)).text == "fine"
    assert fake_time.slept == [600]
    assert "minute limit" in caplog.text
    assert "The server asks to wait 600 s" in caplog.text


async def test_a_retry_after_beyond_the_longest_outage_ends_the_run_so_that_it_can_be_resumed(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime
) -> None:
    server.refuse(429, "daily limit", retry_after="3601")
    with pytest.raises(EndpointSilent, match=r"daily limit; .* asks to wait 3601 s, .*longest_outage_seconds is 3600"):
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
    with pytest.raises(
        EndpointSilent, match=r"no call got through for 1 s, .*no reply within 0\.1 s; raise timeout_sec"
    ):
        await connect(timeout_seconds=0.1, attempts=2, longest_outage_seconds=1).complete(REQUEST)
    assert fake_time.slept == [0.25, 1]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_an_endpoint_that_refuses_key_or_model_is_down_for_every_call(
    server: ScriptedServer, connect: Connect, status: int
) -> None:
    server.refuse(status)
    with pytest.raises(EndpointDown):
        await connect().complete(REQUEST)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, Refused) for status in (400, 413, 422)),
        *((status, LanguageModelError) for status in (405, 410, 500)),
        *((status, EndpointDown) for status in (402, 407)),
    ],
)
async def test_what_an_endpoint_says_no_to_is_the_request_the_way_or_everything(
    server: ScriptedServer, connect: Connect, status: int, kind: type[Exception]
) -> None:
    server.poison("Hello there", "no", status=status)
    with pytest.raises(LanguageModelError) as caught:
        await connect(attempts=1).complete(REQUEST)
    assert type(caught.value) is kind


async def test_a_request_that_brings_the_server_down_each_time_ends_by_itself(
    connect: Connect, server: ScriptedServer
) -> None:
    """The server is back soon, and falls again."""
    for _ in range(MOST_OUTAGES_OF_A_CALL):
        server.refuse(500, times=3 + 1)  # the attempts and a ping
        server.say("pong")
    with pytest.raises(LanguageModelError, match="it may be what the server fails at"):
        await connect().complete(REQUEST)


async def test_a_reply_after_a_timeout_is_taken(server: ScriptedServer, connect: Connect) -> None:
    server.hold()
    asking = asyncio.create_task(connect(timeout_seconds=0.5).complete(REQUEST))
    await server.has_been_asked(2)
    server.release()
    assert (await asking).text == "fine"


async def test_a_connection_that_was_never_there_is_explained(connect: Connect, fake_time: FakeTime) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(EndpointSilent, match=r"no connection .* check that the server runs"):
            await connect(base_url=url, longest_outage_seconds=0).complete(REQUEST)
    assert fake_time.slept == [0.25, 0.5]


async def test_a_connection_that_is_lost_is_asked_again_and_may_be_billed(connect: Connect) -> None:
    asked = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        budget = Budget(Limits())
        metered = Metered(connect(base_url=url, longest_outage_seconds=0), budget=budget)
        with pytest.raises(EndpointSilent, match=r"the connection was lost .*; see the server's log$"):
            await metered.complete(REQUEST)
    assert len(asked) == 3 + 1, "three attempts and a ping"
    assert (budget.calls, budget.tokens) == (1, 4 * metered.worst_case(REQUEST).tokens)


async def test_a_connection_that_was_never_there_bills_nothing(connect: Connect) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        budget = Budget(Limits())
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        metered = Metered(connect(base_url=url, longest_outage_seconds=0), budget=budget)
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
    server.refuse(429, times=2)
    budget = Budget(Limits())
    await Metered(connect(), budget=budget).complete(REQUEST)
    assert (budget.calls, budget.tokens) == (1, 15)


async def test_a_call_takes_from_sending_to_reply_and_waiting_for_a_slot_is_not_its_time(
    server: ScriptedServer, connect: Connect
) -> None:
    server.hold()
    model = connect(concurrency=1, clock=Clock())

    async def seconds() -> float:
        before = chain().seconds
        await model.complete(REQUEST)
        return chain().seconds - before

    asking = [asyncio.create_task(seconds()) for _ in range(2)]
    await server.has_been_asked(1)
    await asyncio.sleep(0.2)
    server.release()
    first, second = await asyncio.gather(*asking)
    assert first > 0.2 > second > 0


async def test_the_talk_comes_before_questions_that_wait_for_a_slot(server: ScriptedServer, connect: Connect) -> None:
    server.hold()
    model = connect(concurrency=1)
    roles = ("answer", "probe", "upper_bound", "reply", "write", "user")
    asking = [asyncio.create_task(model.complete(Request(HELLO, role))) for role in roles]
    await server.has_been_asked(1)
    server.release()
    await asyncio.gather(*asking)
    order = [asked.headers["x-mnemotune-role"] for asked in server.asked]
    assert order == ["answer", "reply", "write", "user", "probe", "upper_bound"]


async def test_a_proxy_of_the_environment_is_asked_instead_unless_the_host_is_excepted(
    server: ScriptedServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    with pytest.raises(EndpointDown, match="status 404"):  # the server was asked, which is no proxy; the host is none
        await connect(base_url="http://nowhere.example/v1").complete(REQUEST)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    await connect().complete(REQUEST)
    assert server.asked[0].headers["host"] in server.url


async def test_a_login_in_the_address_is_sent_where_there_is_no_key(server: ScriptedServer, connect: Connect) -> None:
    url = server.url.replace("//", "//me:p%40ss@")
    await connect(base_url=url).complete(REQUEST)
    await connect(base_url=url, api_key="given").complete(REQUEST)
    sent = [asked.headers["authorization"] for asked in server.asked]
    assert sent == ["Basic " + base64.b64encode(b"me:p@ss").decode(), "Bearer given"]


# What errors advise


@pytest.mark.parametrize(
    ("status", "message", "advice"),
    [
        (401, "Incorrect API key provided", "check OPENAI_API_KEY"),
        (403, "Project has no access", "OPENAI_API_KEY may use this model"),
        (404, "The model `m` does not exist.", "check the model's name"),
        (
            400,
            "This model's maximum context length is 8192 tokens.",
            "set context_tokens, or lower the policy's buffer_size or top_k",
        ),
        (400, "the request exceeds the available context size", "set context_tokens"),
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
    server.poison("Hello there", page, status=502, media_type="text/html")
    with pytest.raises(LanguageModelError, match=r"status 502: Bad Gateway long long") as caught:
        await connect(attempts=1).complete(REQUEST)
    assert len(str(caught.value)) < 500


async def test_a_password_in_the_address_is_not_shown(server: ScriptedServer, connect: Connect) -> None:
    server.refuse(404)
    with pytest.raises(LanguageModelError) as caught:
        await connect(base_url=server.url.replace("//", "//me:secret@")).complete(REQUEST)
    assert "secret" not in str(caught.value)


async def test_a_key_that_the_server_repeats_is_not_shown(server: ScriptedServer, connect: Connect) -> None:
    for quotes, said in ((True, r"provided: \*\*\*"), (False, "401: its words are not quoted")):
        server.refuse(401, "Incorrect API key provided: sk-secret-1234")
        with pytest.raises(EndpointDown, match=f"{said}; check OPENAI_API_KEY"):
            await connect(api_key="sk-secret-1234", quote_server=quotes).complete(REQUEST)


async def test_a_login_is_left_out_of_what_is_written_and_taken_from_the_environment_again(
    server: ScriptedServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.url.replace("//", "//me:secret@")
    written = EndpointConfig(base_url=url).model_dump()["base_url"]
    assert written == server.url
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    await connect(base_url=written).complete(REQUEST)
    assert server.asked[0].headers["authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()
    await connect(base_url=server.url + "/other").complete(REQUEST)
    assert server.asked[1].headers["authorization"] == "Bearer none", "another address has another login"


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
