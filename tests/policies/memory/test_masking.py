"""Masks in place of old observations.

Invariants:

1. Each message is shown as it is, or as a mark of the same role; what an assistant said is never masked.
2. The newest messages are never masked, and what belongs to their tool calls is not either.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm import Message, ToolCall
from mnemotune.policies.memory.budget import units_of
from mnemotune.policies.memory.masking import MASK, looks_like_error, masked

CALL = Message("assistant", "", (ToolCall("1", "search", "{}"), ToolCall("2", "search", "{}")))


def result(text: str, call: str = "1") -> Message:
    return Message("tool", text, tool_call_id=call)


TALK = st.lists(
    st.sampled_from(
        [[Message("user", "Hello.")], [Message("assistant", "Yes.")], [CALL, result("a"), result("b", "2")]]
    )
).map(lambda units: [message for unit in units for message in unit])


@given(talk=TALK, newest=st.integers(0, 12))
def test_old_observations_alone_are_masked_invariants_1_and_2(talk: list[Message], newest: int) -> None:
    shown = masked(talk, newest)
    assert [(m.role, m.tool_calls, m.tool_call_id) for m in shown] == [
        (m.role, m.tool_calls, m.tool_call_id) for m in talk
    ]
    hidden = [now.content == MASK for now in shown]
    assert all(hide or now == before for hide, now, before in zip(hidden, shown, talk, strict=True))
    place = 0
    for unit in units_of(talk):
        old = newest > 0 and place + len(unit) <= len(talk) - newest
        expected = [old and message.role in ("user", "tool") for message in unit]
        assert hidden[place : place + len(unit)] == expected
        place += len(unit)


def test_nothing_is_masked_by_default() -> None:
    talk = [Message("user", "Hello."), Message("assistant", "Yes.")]
    assert masked(talk, 0) == tuple(talk)


def test_a_tool_call_that_reaches_into_the_newest_messages_keeps_all_results() -> None:
    talk = [Message("user", "Which?"), CALL, result("a"), result("b", "2"), Message("assistant", "This one.")]
    assert masked(talk, 2) == (Message("user", MASK), *talk[1:])
    assert masked(talk, 1) == (Message("user", MASK), CALL, result(MASK), result(MASK, "2"), talk[4])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Traceback (most recent call last):", True),
        ("ValueError: no such place", True),
        ("2 failed, 3 passed", True),
        ("exit code: 1", True),
        ("exit code: 0", False),
        ("I moved to Faro.", False),
        ("The terror of the sea", False),
    ],
)
def test_what_looks_like_an_error_stays(text: str, error: bool) -> None:
    assert looks_like_error(text) is error
    (shown, _) = masked([Message("user", text), Message("assistant", "Hm.")], 1)
    assert shown.content == (text if error else MASK)
