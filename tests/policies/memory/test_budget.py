"""One budget for what memory puts before a model.

Invariants:

1. A context that is rendered within its tokens takes no more of them, whatever it holds.
2. What fits is not touched; everything that is missing is counted.
3. Items are left out by rank, pinned ones last; messages are left out oldest first, tool calls with their results.
4. A unit that would not fit by itself is cut, and its text says so.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies import Assistant
from mnemotune.policies.lm import LanguageModel, Message, ToolCall
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import BuiltinMemory, Context, Item, open_memory
from mnemotune.policies.memory.budget import CUT, units_of, within
from mnemotune.policies.memory.conformance import MemoryConformance, Scribe
from mnemotune.policies.policy import MemoryPolicy

if TYPE_CHECKING:
    from ..conftest import MakeModel, MakePolicy, Pair

TEXTS = st.one_of(st.text(max_size=60), st.sampled_from(["x" * 400, "猫" * 90, "{memories}", "\ud83d"]))
CALL = Message("assistant", "", (ToolCall("1", "search", '{"query": "boats"}'),))


def result(text: str, call: str = "1") -> Message:
    return Message("tool", text, tool_call_id=call)


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    texts = draw(st.lists(st.tuples(TEXTS, st.booleans()), max_size=8))
    ranks = draw(st.permutations(range(len(texts))))
    items = [Item(str(i), text, ranks[i], pinned) for i, (text, pinned) in enumerate(texts)]
    messages: list[Message] = []
    for i, (text, kind) in enumerate(draw(st.lists(st.tuples(TEXTS, st.sampled_from(["talk", "tool"])), max_size=8))):
        calls = (ToolCall(str(i), "find", json.dumps({"text": text})),)
        tool = [Message("assistant", text, calls), result(text, str(i))]
        messages += [Message("user", text)] if kind == "talk" else tool
    template = draw(st.sampled_from(["{memories}", "I know:\n{memories}", "long " * 50 + "{memories}{memories}"]))
    return Context(tuple(items), tuple(messages), template if items else draw(st.sampled_from([None, template])))


@settings(deadline=None, max_examples=300)
@given(context=contexts(), tokens=st.integers(0, 400), share=st.floats(0, 1))
def test_a_context_within_its_tokens_takes_no_more_invariants_1_and_2(
    context: Context, tokens: int, share: float
) -> None:
    shown = within(context, tokens, buffer_share=share)
    assert shown.tokens <= tokens
    assert (shown == context) == (context.tokens <= tokens)
    pieces = len(context.items) + len(units_of(context.messages))
    assert shown.left_out == pieces - len(shown.items) - len(units_of(shown.messages))
    assert not units_of(shown.messages) or units_of(shown.messages)[0][0].role != "tool"
    kept = {item.id: item.text for item in shown.items}
    cut = [item.id for item in context.items if item.id in kept and kept[item.id] != item.text]
    assert all(kept[name].endswith(CUT) for name in cut)
    ranks = [(not item.pinned, item.rank, item.id in kept) for item in context.items]
    assert [here for *_, here in sorted(ranks)] == sorted((here for *_, here in ranks), reverse=True)


def test_without_a_limit_a_context_is_what_it_is() -> None:
    context = Context((Item("0", "x" * 10_000),), (Message("user", "y" * 10_000),), "{memories}")
    assert within(context, None, buffer_share=0.5) is context
    assert context.tokens == 2501 + 2500


def test_a_token_is_four_bytes_rounded_up_and_the_template_counts() -> None:
    context = Context((Item("0", "猫"),), (Message("user", "hello"),), "Know:{memories}")
    assert context.tokens == 3 + 2  # "Know:- 猫" has 10 bytes
    assert Context(messages=(CALL,)).tokens == 7  # "1search" and 19 bytes of arguments


def test_items_are_left_out_by_rank_and_the_others_keep_their_places() -> None:
    items = tuple(Item(name, name * 10, rank) for name, rank in (("a", 2), ("b", 0), ("c", 1)))
    shown = within(Context(items, (), "{memories}"), 7, buffer_share=0.5)
    assert [item.id for item in shown.items] == ["b", "c"]
    assert (shown.left_out, shown.cut) == (1, 0)


def test_what_is_pinned_is_left_out_last_even_after_the_buffer() -> None:
    items = (Item("low", "l" * 38, 9, pinned=True), Item("high", "h" * 38, 0))
    shown = within(Context(items, (Message("user", "m" * 40),), "{memories}"), 12, buffer_share=0.5)
    assert [item.id for item in shown.items] == ["low"]
    assert (shown.messages, shown.left_out) == ((), 2)


def test_each_side_gets_what_the_other_has_no_use_for() -> None:
    items = tuple(Item(str(i), "i" * 17, i) for i in range(20))  # 5 tokens a line
    messages = tuple(Message("user", f"{i:02d}" * 10) for i in range(20))  # 5 tokens each
    for few, many in ((items[:2], messages), (items, messages[:2]), (items, messages)):
        shown = within(Context(few, many, "{memories}"), 50, buffer_share=0.5)
        assert 46 <= shown.tokens <= 50
        assert len(shown.items) >= min(len(few), 5)
        assert len(shown.messages) >= min(len(many), 2)
        assert shown.messages == many[len(many) - len(shown.messages) :]


def test_a_tool_call_and_its_result_stay_or_go_together() -> None:
    talk = (Message("user", "Which?"), CALL, result("r" * 40), Message("assistant", "This one."))
    assert units_of(talk) == [talk[:1], talk[1:3], talk[3:]]
    for tokens in range(30):
        roles = [message.role for message in within(Context(messages=talk), tokens, buffer_share=0.5).messages]
        assert ("tool" in roles) == (roles.count("assistant") == 2)


def test_a_message_that_would_not_fit_by_itself_is_cut_and_says_so() -> None:
    shown = within(Context(messages=(Message("user", "old"), Message("user", "n" * 100))), 10, buffer_share=0.5)
    assert shown.messages == (Message("user", "n" * 34 + CUT),)
    assert (shown.left_out, shown.cut) == (1, 1)


def test_an_item_that_would_not_fit_by_itself_is_cut_and_says_so() -> None:
    shown = within(Context((Item("0", "猫" * 100),), (), "{memories}"), 10, buffer_share=0.5)
    assert shown.items[0].text == "猫" * 10 + CUT
    assert (shown.left_out, shown.cut, shown.tokens) == (0, 1, 10)


def test_arguments_that_are_cut_are_still_json() -> None:
    call = Message("assistant", "", (ToolCall("1", "write", json.dumps({"text": 'a "quote" ' * 40})),))
    shown = within(Context(messages=(call, result("done"))), 40, buffer_share=0.5)
    ((cut, after),) = units_of(shown.messages)
    assert json.loads(cut.tool_calls[0].arguments)["cut"].endswith(CUT)
    assert after == result("done")
    assert shown.cut == 1


def test_a_template_that_leaves_no_room_is_cut() -> None:
    context = Context((Item("0", "a"),), (Message("user", "b"),), "Read this. " * 10 + "{memories}")
    shown = within(context, 5, buffer_share=0.5)
    assert [message.content for message in shown.render()] == ["Read this. Rea" + CUT]
    assert (shown.left_out, shown.cut) == (2, 1)
    assert within(context, 0, buffer_share=0.5).render() == ()


class Hoarder(BuiltinMemory):
    """A memory that shows everything, whatever it may."""

    async def context(self, query: str, *, tokens: int | None) -> Context:
        return await super().context(query, tokens=None)


def test_a_memory_that_shows_too_much_is_rejected_by_the_tests_that_ship(make_policy: MakePolicy) -> None:
    def make(model: LanguageModel) -> Hoarder:
        return Hoarder(make_policy("verbatim"), model, LexicalEmbedder())

    with pytest.raises(AssertionError, match="choose items and messages that fit"):
        asyncio.run(MemoryConformance().test_a_context_takes_at_most_its_tokens(make, Scribe()))


async def test_a_memory_that_shows_too_much_is_cut_in_a_run(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    hoarder = Hoarder(make_policy("verbatim"), make_model(), LexicalEmbedder())
    await hoarder.observe(pair("x" * 4000))
    assert (await Assistant(make_model(), hoarder).context("q")).tokens > 1000
    assistant = Assistant(make_model(), hoarder, context_tokens=100)
    assert 50 < (await assistant.context("q")).tokens <= 100
    assert 50 < (await (await assistant.fork()).context("q")).tokens <= 100


async def test_the_built_in_memory_divides_its_tokens_between_memories_and_buffer(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    memory = open_memory(make_policy("verbatim", buffer_size=20), make_model(), LexicalEmbedder())
    for i in range(40):
        await memory.observe(pair(f"I say {i:02d}.", f"You said {i:02d}."))
    shown = await memory.context("Anything?", tokens=100)
    assert 90 <= shown.tokens <= 100
    assert shown.items[-1].text == "assistant: You said 29."
    assert shown.messages[-1].content == "You said 39."
    assert 40 <= sum(message.tokens for message in shown.messages) <= 50
    everything = await memory.context("Anything?", tokens=None)
    assert len(everything.items) == 60
    assert shown.left_out == 80 - len(shown.items) - len(shown.messages)


async def test_a_policys_share_of_the_budget_holds_for_memories_that_know_nothing_of_it(make_model: MakeModel) -> None:
    class Hoard:
        def __init__(self, policy: MemoryPolicy) -> None:
            self.policy = policy

        async def context(self, query: str, *, tokens: int | None) -> Context:
            items = tuple(Item(str(i), f"memory {i}", i) for i in range(200))
            return Context(items, tuple(Message("user", f"message {i}") for i in range(200)), "{memories}")

    buffers = {}
    for share in (10, 90):
        policy = MemoryPolicy.model_validate(
            {
                "write": {"mode": "verbatim"},
                "update_every": 2,
                "buffer_size": 4,
                "store": "context",
                "buffer_share": share,
            }
        )
        shown = await Assistant(make_model(), Hoard(policy), context_tokens=400).context("?")  # type: ignore[arg-type]
        buffers[share] = sum(message.tokens for message in shown.messages)
    assert buffers[10] <= 40
    assert 350 <= buffers[90] <= 360
