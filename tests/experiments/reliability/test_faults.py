"""The proxy hits requests with every kind of fault, and a real client comes through all of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import fastapi
import pytest

from loopback import on_loopback
from mnemotune.experiments.reliability.faults import FAULTS, Fault, FaultProxy, faults_at_random, in_thread
from mnemotune.policies.lm import Message, Request
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.lm.outage import Clock

REQUEST = Request((Message("user", "Hello"),), "answer")


class Fine:
    """Answers "fine"."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def handle(self, request: fastapi.Request) -> fastapi.Response:
        await request.body()
        return fastapi.Response(json.dumps({"choices": [{"message": {"content": "fine"}}]}))


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with on_loopback(Fine) as served:
        yield served.url


async def at_once(seconds: float) -> None:
    await asyncio.sleep(min(seconds, 0.01))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_call_that_a_fault_hits_is_answered_by_the_next_attempt(upstream: str, fault: Fault) -> None:
    proxy = FaultProxy(upstream, lambda number, _: fault if number < 2 else None)
    with in_thread(proxy) as url:
        model = OpenAIModel("m", base_url=url, clock=Clock(sleep=at_once))
        assert (await model.complete(REQUEST)).text == "fine"
        await model.aclose()
    assert proxy.hit == {fault: 2}
    assert proxy.requests == 3


async def test_calls_wait_for_the_end_of_an_outage_and_none_is_lost(upstream: str) -> None:
    proxy = FaultProxy(upstream)
    with in_thread(proxy) as url:
        model = OpenAIModel("m", base_url=url, clock=Clock(sleep=at_once))
        proxy.go_down()
        calls = [asyncio.create_task(model.complete(REQUEST)) for _ in range(20)]
        await asyncio.sleep(0.3)
        assert not any(call.done() for call in calls)
        proxy.come_back()
        assert {(await call).text for call in calls} == {"fine"}
        await model.aclose()
    assert proxy.requests < 20 + 3, "pings aside, each call is answered once"


def test_a_share_of_the_requests_is_hit_by_all_kinds_and_each_time_by_the_same() -> None:
    plan = faults_at_random(0.1, seed=1)
    faults = [plan(number, b"") for number in range(5000)]
    assert faults == [plan(number, b"") for number in range(5000)]
    assert 0.08 < sum(fault is not None for fault in faults) / 5000 < 0.12
    assert set(faults) == {None, *FAULTS}
