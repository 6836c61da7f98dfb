"""The policy space under a budget: the budget bounds the search, and how it is divided is searched too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.files import dump_policy, load_policy, parse_policy
from mnemotune.policies.knob import Range
from mnemotune.policies.lm import Message
from mnemotune.policies.memory.budget import within
from mnemotune.policies.memory.protocol import Context, Item
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.space import MEMORY_TOKENS, MESSAGE_TOKENS, Space, limits_under

RAG = {"write": {"mode": "verbatim"}, "update_every": 2, "buffer_size": 4, "store": "external", "top_k": 30}


def test_as_many_messages_and_memories_are_searched_as_fit() -> None:
    assert limits_under(1000) == {
        "buffer_size": (0, 1000 // MESSAGE_TOKENS),
        "top_k": (2, 1000 // MEMORY_TOKENS),
    }


@given(st.integers(1, 100_000))
def test_every_budget_leaves_something_to_search(tokens: int) -> None:
    for key, (low, high) in limits_under(tokens).items():
        assert 0 <= low <= high, key


def test_how_the_budget_is_divided_is_searched_where_a_limit_asks_for_it() -> None:
    assert "buffer_share" not in Space.within(limits_under(1000)).limits
    assert "buffer_share" not in Space().limits
    assert Space().knob("buffer_share").domain is None
    assert Space.within({}) == Space()


def test_a_limit_that_names_it_has_it_searched() -> None:
    assert Space.within({"buffer_share": (20, 80)}).limits["buffer_share"] == (20, 80)


def test_a_space_under_a_budget_is_made_again_from_its_limits() -> None:
    space = Space.within(limits_under(700))
    assert Space.within(space.limits) == space


def test_half_of_the_budget_is_the_default_and_is_not_in_the_label() -> None:
    even, uneven = MemoryPolicy.model_validate(RAG), MemoryPolicy.model_validate(RAG | {"buffer_share": 70})
    assert even.buffer_share == 50
    assert (even.label, uneven.label) == ("verbatim+external(2,4,30)", "verbatim+external(2,4,30,buffer_share=70)")
    assert even.key != uneven.key
    assert parse_policy(dump_policy(uneven), where="test") == uneven


@pytest.mark.parametrize("share", [-1, 101])
def test_a_share_is_a_percentage(share: int) -> None:
    with pytest.raises(ValueError, match="buffer_share"):
        MemoryPolicy.model_validate(RAG | {"buffer_share": share})


def test_where_nothing_is_written_there_is_nothing_to_divide() -> None:
    with pytest.raises(ValueError, match=r"buffer_share: has no effect with write\.mode: none"):
        MemoryPolicy.model_validate({"write": {"mode": "none"}, "buffer_share": 70})


def test_the_bounds_of_shares_are_ends() -> None:
    domain = Space.within({"buffer_share": (0, 100)}).knob("buffer_share").domain
    assert isinstance(domain, Range)
    assert domain.open_limits == set()


@given(st.integers(0, 100), st.integers(40, 400))
def test_the_buffer_gets_its_share_where_both_sides_would_take_more(share: int, tokens: int) -> None:
    items = tuple(Item(str(i), f"memory {i} of the user", i) for i in range(200))
    messages = tuple(Message("user", f"message {i} of the user") for i in range(200))
    shown = within(Context(items, messages, "{memories}"), tokens, buffer_share=share / 100)
    buffer = sum(message.tokens for message in shown.messages)
    assert shown.tokens <= tokens
    assert buffer <= share / 100 * tokens
    assert buffer >= share / 100 * tokens - 2 * messages[0].tokens


def test_the_window_is_what_keeps_every_message_and_writes_nothing() -> None:
    assert load_policy("window") == load_policy("native")
