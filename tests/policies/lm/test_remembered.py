"""A language model whose replies are kept in front of any budget.

Invariants:

1. The same is never asked twice, not even at the same time; what is known counts as no call of the inner model.
2. A call that nobody waits for any more is kept all the same, unless it is abandoned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mnemotune.policies.forms import ANY_OBJECT
from mnemotune.policies.lm import (
    Budget,
    Completion,
    LanguageModel,
    LanguageModelError,
    Limits,
    Message,
    Metered,
    Request,
    Usage,
)
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.remembered import Remembered

HELLO = Request((Message("user", "hello"),), role="generate")


class Slow(LanguageModel):
    """Numbers its replies, and gives each once it may."""

    name = "slow"

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.may = asyncio.Event()
        self.fails = False

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        number = len(self.asked)
        await self.may.wait()
        if self.fails:
            raise LanguageModelError("no")
        return Completion(f"reply {number}", Usage(2, 3))

    async def aclose(self) -> None:
        pass


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    made = ResponseCache(tmp_path / "cache.db")
    yield made
    made.close()


async def test_the_same_is_asked_once_and_anything_else_anew(cache: ResponseCache) -> None:
    """1."""
    slow = Slow()
    slow.may.set()
    model = Remembered(slow, cache)
    same = await asyncio.gather(model.complete(HELLO), model.complete(HELLO))
    assert {done.text for done in same} == {"reply 1"}
    again = await model.complete(HELLO)
    assert (again.text, again.usage.cached) == ("reply 1", True)
    others = (
        replace(HELLO, repeat=1),
        replace(HELLO, temperature=1.0),
        replace(HELLO, form=ANY_OBJECT),
        replace(HELLO, max_tokens=7),
        replace(HELLO, messages=(Message("system", "hello"),)),
    )
    assert len({(await model.complete(other)).text for other in others}) == 5
    assert len(slow.asked) == 6
    assert (await Remembered(slow, cache, where="elsewhere").complete(HELLO)).text == "reply 7"
    assert (await model.complete(replace(HELLO, role="probe"))).text == "reply 1", "what a call is for changes no reply"
    assert model.ledger.total.calls == model.ledger.total.cached == 2


async def test_what_is_known_takes_nothing_from_a_budget(cache: ResponseCache) -> None:
    """1."""
    slow = Slow()
    slow.may.set()
    model = Remembered(Metered(slow, budget=Budget(Limits(calls=1))), cache)
    for _ in range(3):
        assert (await model.complete(HELLO)).text == "reply 1"


async def test_a_call_that_nobody_waits_for_is_kept(cache: ResponseCache) -> None:
    """2."""
    slow = Slow()
    model = Remembered(slow, cache)
    waiting = asyncio.create_task(model.complete(HELLO))
    await asyncio.sleep(0)
    waiting.cancel()
    slow.may.set()
    await model.settle()
    assert waiting.cancelled()
    assert (await model.complete(HELLO)).text == "reply 1"
    assert len(slow.asked) == 1


async def test_an_abandoned_call_ends(cache: ResponseCache) -> None:
    """2."""
    slow = Slow()
    model = Remembered(slow, cache)
    waiting = asyncio.create_task(model.complete(HELLO))
    await asyncio.sleep(0)
    await model.abandon()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_failure_is_told_and_not_kept(cache: ResponseCache) -> None:
    slow = Slow()
    slow.may.set()
    slow.fails = True
    model = Remembered(slow, cache)
    with pytest.raises(LanguageModelError):
        await model.complete(HELLO)
    slow.fails = False
    assert (await model.complete(HELLO)).text == "reply 2"
