"""An endpoint that answers nothing pauses its calls; a request that alone fails ends by itself.

1. While no call gets through, calls wait together, and go on together when a ping is answered.
2. A pause is said aloud when it begins and when it ends; it ends the run when it is too long.
3. What fails while others get through is the request's fault.
"""

from __future__ import annotations

import asyncio

import pytest

from mnemotune.policies.lm import Refused
from mnemotune.policies.lm.outage import Clock, EndpointSilent, Outages, Unanswered


class Time:
    """Time that passes when somebody sleeps, and not else."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []
        self.clock = Clock(sleep=self._sleep, seconds=lambda: self.seconds)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)


class Ping:
    """A ping that is answered from some second on."""

    def __init__(self, time: Time, *, until: float, retry_after: float | None = None) -> None:
        self._time, self._until, self._retry_after = time, until, retry_after
        self.sent = 0

    async def __call__(self) -> None:
        self.sent += 1
        if self._time.seconds < self._until:
            raise Unanswered("no connection", retry_after=self._retry_after)


def watch(time: Time, *, longest_seconds: float = 3600) -> Outages:
    return Outages("here", longest_seconds=longest_seconds, clock=time.clock)


async def test_a_ping_that_is_answered_is_no_outage() -> None:
    time = Time()
    outages = watch(time)
    assert not await outages.waited_out(Unanswered("reset"), outages.seen, Ping(time, until=0))
    assert time.slept == []


async def test_no_ping_is_sent_where_another_call_got_through_meanwhile() -> None:
    time = Time()
    outages, ping = watch(time), Ping(time, until=99)
    since = outages.seen
    outages.note_reply()
    assert not await outages.waited_out(Unanswered("reset"), since, ping)
    assert ping.sent == 0


@pytest.mark.parametrize("length", [1, 9, 30, 120, 1800])
async def test_an_outage_is_waited_for_and_little_is_lost_after_its_end(length: float) -> None:
    time = Time()
    outages = watch(time)
    assert await outages.waited_out(Unanswered("reset"), outages.seen, Ping(time, until=length))
    assert length <= time.seconds <= 1.1 * length + 1
    assert time.slept == sorted(time.slept), "waits grow"
    assert max(time.slept) <= 60


async def test_calls_that_fail_together_wait_for_one_pause() -> None:
    time = Time()
    outages, ping = watch(time), Ping(time, until=5)
    since = outages.seen
    waiting = [outages.waited_out(Unanswered("reset"), since, ping) for _ in range(16)]
    assert await asyncio.gather(*waiting) == [True] * 16
    assert ping.sent == 6


async def test_new_calls_wait_until_a_pause_is_over() -> None:
    time = Time()
    outages = watch(time)
    pausing = asyncio.create_task(outages.waited_out(Unanswered("reset"), outages.seen, Ping(time, until=5)))
    await asyncio.sleep(0)
    await outages.over()
    assert time.seconds == 5
    await pausing


async def test_a_pause_is_said_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    outages = watch(time)
    await outages.waited_out(Unanswered("reset"), outages.seen, Ping(time, until=300))
    began, ended = (record.message for record in caplog.records)
    assert "here: reset. No call gets through: paused at " in began
    assert "trying again for at most 60 min" in began
    assert "calls get through again after 5 min" in ended


async def test_a_pause_that_is_too_long_ends_the_run_for_every_call() -> None:
    time = Time()
    outages, ping = watch(time, longest_seconds=100), Ping(time, until=1000)
    since = outages.seen
    waiting = [outages.waited_out(Unanswered("reset"), since, ping) for _ in range(3)]
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(end) for end in ends] == [EndpointSilent] * 3
    assert "here: no call got through for" in str(ends[0])
    assert time.seconds <= 100


async def test_a_server_that_says_how_long_it_is_away_is_asked_then() -> None:
    time = Time()
    outages = watch(time)
    await outages.waited_out(Unanswered("busy"), outages.seen, Ping(time, until=590, retry_after=600))
    assert time.slept == [1, 600]


async def test_a_pause_that_is_cancelled_holds_nobody_back() -> None:
    outages = Outages("here", longest_seconds=3600, clock=Clock())
    pausing = asyncio.create_task(outages.waited_out(Unanswered("reset"), outages.seen, Ping(Time(), until=99)))
    await asyncio.sleep(0.01)
    pausing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pausing
    await asyncio.wait_for(outages.over(), 1)


async def test_a_ping_that_is_refused_is_an_answer() -> None:
    async def refuse() -> None:
        raise Refused("a reply of one token is too short")

    outages = watch(Time())
    assert not await outages.waited_out(Unanswered("reset"), outages.seen, refuse)


async def test_after_the_end_a_reply_lets_calls_go_on() -> None:
    time = Time()
    outages = watch(time, longest_seconds=10)
    with pytest.raises(EndpointSilent):
        await outages.waited_out(Unanswered("reset"), outages.seen, Ping(time, until=1000))
    outages.note_reply()
    assert await outages.waited_out(Unanswered("reset"), outages.seen, Ping(time, until=time.seconds + 5))


async def test_a_pause_goes_on_for_the_next_call_where_the_first_is_cancelled() -> None:
    time = Time()
    outages, ping = watch(time, longest_seconds=100), Ping(time, until=1000)
    first = asyncio.create_task(outages.waited_out(Unanswered("reset"), outages.seen, ping))
    while time.seconds < 50:  # noqa: ASYNC110 - time passes there
        await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(EndpointSilent):
        await outages.waited_out(Unanswered("reset"), outages.seen, ping)
    assert time.seconds <= 110, "a wait that is broken off is not counted"
