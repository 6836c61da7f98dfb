"""One endpoint: what is asked again, how long is waited, and what it costs."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
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
from mnemotune.policies.lm.endpoint import MOST_OUTAGES_OF_A_CALL
from mnemotune.policies.lm.outage import EndpointSilent
from mnemotune.policies.lm.refusals import retry_after_seconds

if TYPE_CHECKING:
    from .conftest import Connect, FakeTime, ScriptedServer

HELLO = (Message("system", "Be kind."), Message("user", "Hello there"))
REQUEST = Request(HELLO, "answer")


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
    now = datetime.now(UTC)
    server.refuse(503, date=format_datetime(now, usegmt=True), retry_after=format_datetime(now + timedelta(seconds=42)))
    await connect().complete(REQUEST)
    assert fake_time.slept == [42], "by the server's clock, whatever ours says"


@pytest.mark.parametrize("ours", [timedelta(0), timedelta(hours=2), timedelta(hours=-2)])
def test_a_date_to_wait_for_is_counted_from_the_server_s_own_clock(ours: timedelta) -> None:
    theirs = datetime(2026, 11, 29, 12, tzinfo=UTC)
    until = format_datetime(theirs + timedelta(seconds=2), usegmt=True)
    headers = {"Date": format_datetime(theirs, usegmt=True), "Retry-After": until}
    assert retry_after_seconds(headers, theirs + ours) == 2
    assert retry_after_seconds({"Retry-After": until, "Date": "today"}, theirs) == 2
    assert retry_after_seconds({"Retry-After": "soon"}, theirs) is None


@pytest.mark.parametrize("empty", [{"choices": []}, {"status": "starting"}, {"choices": None}])
async def test_replies_without_a_choice_are_an_outage_while_there_are_no_others(
    server: ScriptedServer, connect: Connect, fake_time: FakeTime, empty: dict[str, object]
) -> None:
    for _ in range(40):
        server.answer(empty)
    assert (await connect().complete(REQUEST)).text == "fine"
    assert sum(fake_time.slept) > 60


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
