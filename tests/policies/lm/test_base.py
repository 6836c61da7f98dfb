"""What every language model does, and what calls cost.

Invariants of every language model (``LanguageModelConformance``):

1. A request that can be answered gets a text and what it took, in whole tokens, never negative.
2. What a call is billed as does not alter the reply.
3. Calls may overlap.

Invariants of the ledger:

4. The total is the sum over the roles; a sum of ledgers is the ledger of all calls.
5. One unknown price makes the sum unknown; nothing is ever guessed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, get_args

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.forms import ANY_OBJECT
from mnemotune.policies.lm import (
    CALL_ROLES,
    Budget,
    CallRole,
    Completion,
    LanguageModel,
    Ledger,
    Limits,
    Message,
    Metered,
    Request,
    Spend,
    ToolCall,
    Usage,
)
from mnemotune.policies.lm.base import most_input_tokens
from mnemotune.policies.lm.client import ClientModel
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.ledger import merged
from mnemotune.policies.lm.openai import OpenAIModel

if TYPE_CHECKING:
    from .conftest import FakeTime, ScriptedServer

TALK = (
    Message("system", "You are a helpful assistant."),
    Message("user", "I swim every day."),
    Message("assistant", "Great."),
    Message("user", "What should I eat?"),
)
AWKWARD = ("", " ", "\n\n", "{}{0}{memories}", "🌱 ünïcödé 猫", '"quotes" \\ and `fences` ```json', "x" * 20_000)


class LanguageModelConformance:
    """What every language model must do; a subclass gives the fixture ``model``."""

    async def test_it_has_a_name(self, model: LanguageModel) -> None:
        assert isinstance(model.name, str)
        assert model.name
        assert model.name == model.name.strip()

    async def test_a_reply_is_a_text_with_what_it_took(self, model: LanguageModel) -> None:
        completion = await model.complete(Request(TALK, "reply"))
        assert isinstance(completion, Completion)
        assert isinstance(completion.text, str)
        assert completion.text
        usage = completion.usage
        assert isinstance(usage.input_tokens, int)
        assert isinstance(usage.output_tokens, int)
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0
        assert usage.cost_usd is None or usage.cost_usd >= 0
        assert usage.cached is False

    async def test_what_a_call_is_billed_as_does_not_alter_the_reply(self, model: LanguageModel) -> None:
        texts = {(await model.complete(Request(TALK, role))).text for role in CALL_ROLES}
        assert len(texts) == 1

    async def test_calls_may_overlap(self, model: LanguageModel) -> None:
        requests = [Request((Message("user", f"I have {i} cats. Which food?"),), "reply") for i in range(8)]
        together = await asyncio.gather(*map(model.complete, requests))
        assert [c.text for c in together] == [(await model.complete(request)).text for request in requests]

    @pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
    async def test_any_text_is_answered(self, model: LanguageModel, text: str) -> None:
        for messages in ((Message("user", text),), (Message("system", text), Message("user", "Hello?"))):
            assert isinstance((await model.complete(Request(messages, "answer", form=ANY_OBJECT))).text, str)

    async def test_it_can_be_closed_twice(self, model: LanguageModel) -> None:
        await model.aclose()
        await model.aclose()


class TestEmbeddedModel(LanguageModelConformance):
    @pytest.fixture
    def model(self) -> LanguageModel:
        return EmbeddedModel()


class TestMetered(LanguageModelConformance):
    @pytest.fixture
    def model(self) -> LanguageModel:
        return Metered(EmbeddedModel(), budget=Budget(Limits(calls=1000, tokens=10**7, usd=1.0, seconds=600.0)))


class TestOpenAIModel(LanguageModelConformance):
    @pytest.fixture
    async def model(self, server: ScriptedServer, fake_time: FakeTime) -> AsyncIterator[LanguageModel]:
        connected = OpenAIModel("m", base_url=server.url, clock=fake_time.clock)
        yield connected
        await connected.aclose()


class TestOfficialClient(LanguageModelConformance):
    @pytest.fixture
    async def model(self, server: ScriptedServer) -> AsyncIterator[LanguageModel]:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="any") as client:
            yield ClientModel(client, "m")


# Records


def test_the_roles_are_those_of_the_type() -> None:
    assert get_args(CallRole) == CALL_ROLES
    assert len(set(CALL_ROLES)) == len(CALL_ROLES)


def test_messages_requests_and_completions_are_values() -> None:
    request = Request(TALK, "answer")
    assert request == Request(tuple(TALK), "answer", form=None, temperature=0.0, max_tokens=512, repeat=0)
    assert hash(request) == hash(Request(TALK, "answer"))
    for record, field in ((request, "role"), (TALK[0], "content"), (Completion("a", Usage(1, 1)), "text")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field, "changed")


# Ledger

USAGES = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**6),
    cost_usd=st.none() | st.integers(0, 1000).map(lambda eighths: eighths / 8),
    cached=st.booleans(),
)
CALLS = st.lists(st.tuples(st.sampled_from(CALL_ROLES), USAGES), max_size=12)
Calls = list[tuple[CallRole, Usage]]


def ledger_of(calls: Calls) -> Ledger:
    ledger = Ledger()
    for role, usage in calls:
        ledger.add(role, usage)
    return ledger


def spend_of(usages: list[Usage]) -> Spend:
    costs = [usage.cost_usd for usage in usages]
    return Spend(
        calls=len(usages),
        cached=sum(usage.cached for usage in usages),
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


@given(calls=CALLS)
def test_a_ledger_holds_the_sum_of_each_role_and_of_all(calls: Calls) -> None:
    ledger = ledger_of(calls)
    assert ledger.by_role == {
        role: spend_of([usage for other, usage in calls if other == role]) for role in {role for role, _ in calls}
    }
    assert ledger.total == spend_of([usage for _, usage in calls])


@given(first=CALLS, second=CALLS)
def test_the_sum_of_ledgers_is_the_ledger_of_all_calls(first: Calls, second: Calls) -> None:
    one, two = ledger_of(first), ledger_of(second)
    assert merged([one, two]) == ledger_of(first + second)
    assert (one, two) == (ledger_of(first), ledger_of(second))
    one.add_ledger(two)
    assert one == ledger_of(first + second)


@given(calls=CALLS)
def test_a_ledger_that_went_through_json_is_the_same_ledger(calls: Calls) -> None:
    ledger = ledger_of(calls)
    assert Ledger.from_json(json.loads(json.dumps(ledger.as_json()))) == ledger


def test_a_copy_goes_its_own_way() -> None:
    ledger = ledger_of([("answer", Usage(1, 1))])
    copy = merged([ledger])
    ledger.add("answer", Usage(5, 5))
    assert copy.total == Spend(1, 0, 1, 1, 0.0)


def test_an_empty_ledger_has_spent_nothing() -> None:
    assert Ledger().total == Spend()
    assert merged([]) == Ledger()
    assert Ledger().as_json() == {}


def test_an_unknown_price_stays_unknown() -> None:
    spend = Spend()
    spend.add(Usage(1, 1, cost_usd=None))
    spend.add(Usage(1, 1, cost_usd=2.0))
    assert spend == Spend(2, 0, 2, 2, None)


def test_a_message_without_tools_is_encoded_as_ever() -> None:
    """Replies are cached under these bytes."""
    assert Message("user", 'a "猫"\n').encoded == b'{"role": "user", "content": "a \\"\xe7\x8c\xab\\"\\n"}'
    assert Message("user", "a\ud83d").encoded == b'{"role": "user", "content": "a\\ud83d"}'


def test_tool_calls_and_results_have_openai_s_form_and_count() -> None:
    call = Message("assistant", "Wait.", (ToolCall("c1", "search", '{"q": "猫"}'),))
    assert json.loads(call.encoded) == {
        "role": "assistant",
        "content": "Wait.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "猫"}'}}],
    }
    result = Message("tool", "None.", tool_call_id="c1")
    assert json.loads(result.encoded) == {"role": "tool", "content": "None.", "tool_call_id": "c1"}
    assert (call.size, call.tokens, result.size, result.tokens) == (5 + 2 + 6 + 12, 7, 7, 2)
    assert most_input_tokens([call]) > most_input_tokens([Message("assistant", "Wait.")]) + 20
    assert call.text == 'Wait.\nsearch({"q": "猫"})'


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "tool"},
        {"role": "assistant", "tool_call_id": "c1"},
        {"role": "user", "tool_calls": (ToolCall("c1", "search", "{}"),)},
    ],
)
def test_a_tool_call_is_the_assistant_s_and_a_result_says_of_which_call(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a message"):
        Message(content="", **fields)
