"""A package's calls go through ours to an endpoint in another process: metered, cached, within the budget."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mnemotune.policies import MemoryPolicy
from mnemotune.policies.lm.base import Message
from mnemotune.policies.lm.budget import Budget, BudgetExhausted, Limits
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.ledger import Ledger
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.metered import Metered, MeteredEmbedder
from mnemotune.policies.lm.openai import OpenAIEmbedder, OpenAIModel
from mnemotune.policies.memory import MEMORIES, Item

pytestmark = [pytest.mark.packages, pytest.mark.timeout(900)]

KEEPS = {"buffer_size": 0, "update_every": 2, "write": {"mode": "verbatim"}, "store": "external", "top_k": 30}
FACTS = ("I moved to Lisbon in May.", "I work as a nurse at night.", "My dog is called Olive.", "I play the cello.")
TALK = [[Message("user", fact), Message("assistant", "I see.")] for fact in FACTS]


class Upstream:
    """`mnemotune serve` in a process of its own, in place of a provider's endpoint."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "mnemotune", "serve", "--port", "0", "--workers", "1"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        url = re.search(r"http://\S+:\d+/v1", line)
        assert url is not None, line
        self.url = url[0]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.end()


@dataclass(frozen=True)
class Outcome:
    """What came of a talk."""

    listing: list[Item]
    written: Ledger
    embedded: Ledger
    exhausted: bool


async def heard(package: str, url: str, folder: Path, *, calls: int | None = None) -> Outcome:
    """Let a package hear the talk, with no more calls than these."""
    policy = MemoryPolicy.model_validate({"backend": package, **KEEPS})
    budget = Budget(Limits(calls=calls))
    with closing(ResponseCache(folder / "cache.db")) as cache:
        reach: dict[str, Any] = {
            "cache": cache,
            "base_url": url,
            "attempts": 1,
            "longest_outage_seconds": 0,
            "api_key": "none",
        }
        model = Metered(OpenAIModel("embedded", **reach), budget=budget)
        embedder = MeteredEmbedder(OpenAIEmbedder(LexicalEmbedder().name, **reach), budget=budget)
        memory, exhausted = MEMORIES.get(package)(policy, model, embedder), False
        try:
            for messages in TALK:
                await memory.observe(messages)
        except BudgetExhausted:
            exhausted = True
        outcome = Outcome(await memory.listing(), model.ledger, embedder.ledger, exhausted)
        await memory.aclose()
        await model.aclose()
        await embedder.aclose()
    return outcome


def counts(outcome: Outcome) -> list[int]:
    return [ledger.total.calls for ledger in (outcome.written, outcome.embedded)]


def kept(folder: Path) -> int:
    """Return how many replies of the endpoint are in the cache."""
    with closing(sqlite3.connect(folder / "cache.db")) as database:
        (count,) = database.execute("SELECT count(*) FROM replies").fetchone()
    return int(count)


async def test_its_calls_are_metered_and_the_second_time_none_goes_out(
    package: str, upstream: Upstream, tmp_path: Path
) -> None:
    first = await heard(package, upstream.url, tmp_path)
    assert any("Lisbon" in item.text for item in first.listing)
    assert first.written.total.calls > 0
    assert first.embedded.total.calls > 0
    assert set(first.written.by_role) == {"write"}
    upstream.end()
    second = await heard(package, upstream.url, tmp_path)
    assert second.listing == first.listing
    assert counts(second) == counts(first)
    assert [ledger.total.cached for ledger in (second.written, second.embedded)] == counts(second)


async def test_a_small_budget_stops_it_without_a_call_too_many(
    package: str, upstream: Upstream, tmp_path: Path
) -> None:
    outcome = await heard(package, upstream.url, tmp_path, calls=5)
    assert outcome.exhausted
    assert outcome.written.total.calls + outcome.embedded.total.calls <= 5
    assert kept(tmp_path) <= 5
