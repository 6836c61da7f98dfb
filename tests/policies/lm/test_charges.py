"""A request is charged once per study.

Invariants:

1. What was charged is free when it is asked again, also by a process that comes later.
2. What is sent is written down before it is sent, at its worst; what it took takes the place of that.
3. What was sent twice is charged twice.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mnemotune.policies.lm import (
    Budget,
    BudgetExhausted,
    Charges,
    ChargesError,
    Completion,
    LanguageModel,
    LanguageModelError,
    Limits,
    Metered,
    Request,
    Spend,
    Usage,
)
from spending import priced, request, worst

USED = Usage(7, 3, 0.5)


class Server(LanguageModel):
    """Sends what it does not know yet; ``fails`` tells how its next call ends."""

    name = "server"

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.sent = 0
        self.fails: BaseException | None = None

    def worst_case(self, request: Request) -> Usage:
        return priced(super().worst_case(request))

    async def complete(self, request: Request) -> Completion:
        key = request.identity(self.name)
        if key in self.known:
            return Completion("fine", replace(USED, cost_usd=0.0, cached=True, saved_usd=USED.cost_usd))
        assert request.bill is not None
        await request.bill.sending()
        self.sent += 1
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        self.known.add(key)
        return Completion("fine", USED)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "charges.db"


@pytest.fixture
def charges(file: Path) -> Iterator[Charges]:
    opened = Charges(file)
    yield opened
    opened.close()


def metered(server: LanguageModel, charges: Charges, **limits: int) -> tuple[Metered, Budget]:
    budget = Budget(Limits(**limits), charges=charges, phase="search")  # type: ignore[arg-type]
    return Metered(server, budget=budget), budget


async def test_a_request_that_is_repeated_is_charged_once_invariant_1(charges: Charges) -> None:
    server = Server()
    model, budget = metered(server, charges, calls=2)
    for text in ("one", "two", "one", "two"):
        await model.complete(request(text))
    assert (budget.calls, budget.tokens, budget.usd, server.sent) == (2, 20, 1.0, 2)
    assert model.ledger.total.calls == 4, "the meter counts every call"
    assert charges.ledger() == budget.ledger
    with pytest.raises(BudgetExhausted, match="2 calls"):
        await model.complete(request("three"))


async def test_a_warm_cache_changes_nothing_invariant_1(charges: Charges) -> None:
    cold, warm = Server(), Server()
    model, budget = metered(cold, charges)
    await model.complete(request())
    warm.known = cold.known
    again, later = metered(warm, Charges())
    await again.complete(request())
    assert (later.calls, later.tokens, later.usd) == (budget.calls, budget.tokens, budget.usd)


async def test_a_process_that_comes_later_is_charged_nothing_for_what_is_known_invariant_1(file: Path) -> None:
    server, first = Server(), Charges(file)
    await metered(server, first)[0].complete(request())
    first.close()
    later = Charges(file)
    model, budget = metered(server, later, calls=0)
    await model.complete(request())
    assert (budget.calls, server.sent) == (0, 1)
    assert later.ledger("search").by_role == {"answer": Spend(1, 0, 7, 3, 0.5)}
    later.close()


async def test_equal_requests_side_by_side_are_charged_once_invariant_1(charges: Charges) -> None:
    server = Server()
    model, budget = metered(server, charges)
    await asyncio.gather(*(model.complete(request()) for _ in range(5)))
    assert (budget.calls, budget.tokens, server.sent) == (1, 10, 1)


@pytest.mark.parametrize("answered", [True, False])
async def test_what_a_killed_process_had_under_way_is_charged_at_its_worst_invariants_2_and_3(
    answered: bool, file: Path
) -> None:
    """Where the answer came, the cache has it; else it is asked again, and the server may bill it again."""
    server, killed = Server(), Charges(file)
    most = priced(worst())
    bill_is_written: list[tuple[int, float | None]] = []

    class Watched(Server):
        async def complete(self, asked: Request) -> Completion:
            assert asked.bill is not None
            await asked.bill.sending()
            with sqlite3.connect(file) as other:
                bill_is_written.extend(other.execute("SELECT input_tokens + output_tokens, cost_usd FROM charges"))
            raise KeyboardInterrupt

    watched, _ = metered(Watched(), killed)
    with pytest.raises(KeyboardInterrupt):
        await watched.complete(request())
    assert bill_is_written == [(most.tokens, most.cost_usd)]
    killed._connection.execute(
        "UPDATE charges SET open = 1, input_tokens = ?, output_tokens = ?, cost_usd = ?",
        (most.input_tokens, most.output_tokens, most.cost_usd),
    )  # as a kill leaves it
    killed.close()
    if answered:
        server.known.add(request().identity("server"))
    later = Charges(file)
    model, budget = metered(server, later)
    await model.complete(request())
    total = later.ledger().total
    assert total.calls == (1 if answered else 2)
    assert total.input_tokens + total.output_tokens == 10 + (0 if answered else most.tokens)
    assert total == budget.ledger.total
    later.close()


async def test_a_call_that_fails_is_charged_as_a_call_without_tokens_and_again_when_it_is_sent_again(
    charges: Charges,
) -> None:
    server = Server()
    server.fails = LanguageModelError("no")
    model, budget = metered(server, charges)
    for sent in (1, 2):
        with pytest.raises(LanguageModelError):
            await model.complete(request())
        assert (budget.calls, budget.tokens) == (sent, 0)
    assert charges.ledger().total == Spend(2, 0, 0, 0, 0.0)


async def test_an_unknown_price_stays_unknown(charges: Charges) -> None:
    class Unpriced(Server):
        async def complete(self, request: Request) -> Completion:
            return Completion("fine", Usage(7, 3, None))

    await metered(Unpriced(), charges)[0].complete(request("one"))
    await metered(Server(), charges)[0].complete(request("two"))
    assert charges.ledger().total.cost_usd is None


def test_each_phase_has_its_charges(charges: Charges) -> None:
    for key, phase in ((b"1", "search"), (b"2", "test"), (b"3", "test")):
        charges.add(key, "reply", USED, phase=phase, calls=1, is_open=False, save=False)
    assert charges.ledger("search").total.calls == 1
    assert charges.ledger("test").total == Spend(2, 0, 14, 6, 1.0)
    assert charges.ledger("none").by_role == {}


@pytest.mark.parametrize("content", [b"not a database at all, for its bytes are a text", None])
def test_a_file_that_cannot_be_used_is_named(content: bytes | None, file: Path) -> None:
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(ChargesError, match=r"charges\.db, which counts what was spent"):
        Charges(file)


@pytest.mark.parametrize("other", ["other text", "role", "tokens", "repeat", "model"])
def test_requests_that_differ_are_told_apart(other: str) -> None:
    first = request()
    twins = {
        "other text": request("other"),
        "tokens": replace(first, max_tokens=7),
        "repeat": replace(first, repeat=1),
    }
    if other == "role":
        assert replace(first, role="write").identity("m") == first.identity("m"), "a role is what it is billed as"
    elif other == "model":
        assert first.identity("m") != first.identity("n")
    else:
        assert twins[other].identity("m") != first.identity("m")
