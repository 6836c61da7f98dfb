"""One endpoint: keys, pacing, and errors that say what to do."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.lm import (
    EndpointDown,
    LanguageModelError,
    Message,
    Request,
)
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.chain import chain
from mnemotune.policies.lm.endpoint_config import EndpointConfig
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.lm.outage import Clock, EndpointSilent
from spending import Bill

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


@pytest.mark.parametrize(("status", "error"), [(407, EndpointDown), (503, EndpointSilent)])
@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_a_proxy_that_opens_no_way_is_named_and_nothing_is_billed(
    monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception], scheme: str
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    bill = Bill()
    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with proxy:
        monkeypatch.setenv("https_proxy", f"{scheme}127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        model = OpenAIModel("m", base_url="https://llm.example.com/v1", attempts=2, longest_outage_seconds=0)
        with pytest.raises(error, match=f"status {status}: the proxy opens no way"):
            await model.complete(replace(REQUEST, bill=bill))
        await model.aclose()
    assert bill.heard == ["reserve", "sending"]


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
