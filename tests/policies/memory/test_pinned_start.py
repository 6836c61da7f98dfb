"""The start of a task that stays in view, message by message and under a budget.

Invariants:

1. The start, what was evicted, and then the buffer is what was observed; none of the start is ever written.
2. A context takes at most its tokens; while any of the start is missing or cut, nothing else is shown.
3. A tool call and its results are in the start together, or neither is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm import Message, ToolCall
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import BuiltinMemory, Context, Item
from mnemotune.policies.memory.budget import CUT, units_of, within

if TYPE_CHECKING:
    from ..conftest import MakeModel, MakePolicy, Pair

TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(["x" * 300, "猫" * 60]))
UNITS = st.lists(st.tuples(TEXTS, st.integers(0, 2)), max_size=9)
"""Units of a talk: a text, and how many tools were called with it."""


def unit(place: int, text: str, calls: int) -> list[Message]:
    if not calls:
        return [Message("user", f"{place} {text}")]
    asked = tuple(ToolCall(f"{place}.{i}", "find", json.dumps({"text": text})) for i in range(calls))
    return [Message("assistant", f"{place}", asked), *(Message("tool", text, tool_call_id=call.id) for call in asked)]


def talk_of(units: list[tuple[str, int]]) -> list[Message]:
    return [message for i, (text, calls) in enumerate(units) for message in unit(i, text, calls)]


@settings(deadline=None)
@given(
    units=UNITS,
    keep_first=st.integers(0, 6),
    by=st.integers(1, 4),
    sizes=st.tuples(st.integers(1, 4), st.integers(0, 4)),
)
async def test_the_start_stays_and_the_rest_is_written_invariants_1_and_3(
    make_model: MakeModel,
    make_policy: MakePolicy,
    units: list[tuple[str, int]],
    keep_first: int,
    by: int,
    sizes: tuple[int, int],
) -> None:
    update_every, buffer_size = sizes
    policy = make_policy("verbatim", update_every=update_every, buffer_size=buffer_size, keep_first=keep_first)
    memory = BuiltinMemory(policy, make_model(), LexicalEmbedder())
    observed, evicted = talk_of(units), list[Message]()
    for place in range(0, len(observed), by):
        for event in await memory.observe(observed[place : place + by]):
            evicted += event.evicted
        shown = await memory.context("?", tokens=None)
        start, rest = shown.messages[: shown.pinned], shown.messages[shown.pinned :]
        assert [*start, *evicted, *rest] == observed[: place + by]
    assert len(start if observed else ()) >= min(keep_first, len(observed))
    whole = units_of(observed)
    assert tuple(m for u in whole[: len(units_of(start))] for m in u) == start if observed else True


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    units = draw(UNITS)
    messages = talk_of(units)
    pinned = len(talk_of(units[: draw(st.integers(0, len(units)))]))
    items = tuple(Item(str(i), text, i) for i, text in enumerate(draw(st.lists(TEXTS, max_size=5))))
    return Context(items, tuple(messages), "I know:\n{memories}", pinned=pinned)


@settings(deadline=None, max_examples=300)
@given(context=contexts(), tokens=st.integers(0, 400), share=st.floats(0, 1))
def test_the_start_is_cut_after_all_else_invariant_2(context: Context, tokens: int, share: float) -> None:
    shown = within(context, tokens, buffer_share=share)
    assert shown.tokens <= tokens
    start = context.messages[: context.pinned]
    if shown.messages[: shown.pinned] != start:
        assert (shown.items, len(shown.messages)) == ((), shown.pinned)
        kept = units_of(shown.messages)
        assert kept[:-1] == units_of(start)[: max(0, len(kept) - 1)]
    else:
        rest = shown.messages[shown.pinned :]
        assert [m.role for m in rest] == [m.role for m in context.messages[len(context.messages) - len(rest) :]]
    assert shown.left_out == len(context.items) - len(shown.items) + len(units_of(context.messages)) - len(
        units_of(shown.messages)
    )
    assert all(len(unit) == 1 + len(unit[0].tool_calls) and unit[0].role != "tool" for unit in units_of(shown.messages))
    assert within(shown, tokens, buffer_share=share) == shown


def test_the_newest_messages_share_with_the_memories_what_the_start_leaves() -> None:
    messages = tuple(Message("user", f"{i:02d}" * 10) for i in range(20))  # 5 tokens each
    items = tuple(Item(str(i), "i" * 17, i) for i in range(20))  # 5 tokens a line
    shown = within(Context(items, messages, "{memories}", pinned=2), 50, buffer_share=0.5)
    assert shown.messages == (*messages[:2], *messages[-4:])
    assert (len(shown.items), shown.pinned, shown.left_out) == (4, 2, 30)


def test_a_start_that_does_not_fit_is_cut_and_the_task_comes_first() -> None:
    messages = (Message("user", "task " * 4), Message("user", "r" * 100), Message("user", "new"))
    shown = within(Context((), messages, pinned=2), 15, buffer_share=0.5)
    assert shown.messages == (messages[0], Message("user", "r" * 34 + CUT))
    assert (shown.left_out, shown.cut, shown.pinned) == (1, 1, 2)


async def test_the_result_of_a_call_in_the_start_comes_to_the_start(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    memory = BuiltinMemory(make_policy("none", keep_first=1), make_model(), LexicalEmbedder())
    call, answer = unit(0, "boats", 1)
    await memory.observe([call])
    await memory.observe([answer, Message("user", "Thanks.")])
    shown = await memory.context("?", tokens=None)
    assert (shown.messages, shown.pinned) == ((call, answer, Message("user", "Thanks.")), 2)


async def test_what_is_forgotten_of_the_start_is_not_replaced(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    memory = BuiltinMemory(make_policy("none", keep_first=2), make_model(), LexicalEmbedder())
    await memory.observe([*pair("I live in Faro."), *pair("I like tea.")])
    assert await memory.forget(lambda text: "Faro" in text) == 1
    shown = await memory.context("?", tokens=None)
    assert ([m.content for m in shown.messages], shown.pinned) == (["I see.", "I like tea.", "I see."], 1)
