"""Prompts.

1. Two writes that meet the same messages with the same memory share their prefix, whatever they did.
2. Nothing that a write touched is left out of its prompt.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.memrm.render import render, unreadable
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent

SAID = (Message("user", "I moved to the coast. Where do I buy bread?"), Message("assistant", "At a bakery."))
text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
memory = st.lists(text, max_size=6).map(tuple)


def write(before: tuple[str, ...] = (), after: tuple[str, ...] = (), said: tuple[Message, ...] = SAID) -> MemoryEvent:
    return MemoryEvent(said, before, after)


@given(before=memory, after=memory, other=memory, lines=st.none() | st.integers(0, 3))
def test_writes_that_meet_the_same_share_the_prefix(
    before: tuple[str, ...], after: tuple[str, ...], other: tuple[str, ...], lines: int | None
) -> None:
    assert render(write(before, after), lines=lines).prefix == render(write(before, other), lines=lines).prefix


@given(before=memory, after=memory)
def test_every_line_added_or_removed_is_in_the_suffix(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    suffix = render(write(before, after), lines=0).suffix
    plain = suffix.replace("«", "").replace("»", "")
    for line in {*before} ^ {*after}:
        shown = " ".join(line.split()).replace("«", "").replace("»", "")
        assert shown in plain.replace('"', "") or shown.replace('"', "") in plain.replace('"', "")


def test_what_was_said_and_not_written_is_marked() -> None:
    suffix = render(write(after=("I moved to the north.",)), lines=None).suffix
    assert "Not written:\n- 1 of 2: I moved to the «coast.»\n- 0 of 2: «Where do I buy bread?»" in suffix


def test_what_is_written_elsewhere_is_not_marked() -> None:
    suffix = render(write(("moved to the coast",), ("moved to the coast", "buy bread")), lines=None).suffix
    assert "Not written: nothing" in suffix


def test_words_that_a_removed_line_takes_along_are_marked() -> None:
    suffix = render(write(("A red boat of wood",), ("A boat of wood",)), lines=None).suffix
    assert "Removed:\n- 2 of 3: «A red» boat of wood" in suffix


def test_a_line_that_only_moved_is_neither_removed_nor_added() -> None:
    suffix = render(write(("a boat", "a car"), ("a car", "a boat")), lines=None).suffix
    assert "Removed: nothing\nAdded: nothing" in suffix


def test_of_a_long_memory_the_lines_nearest_to_the_messages_are_shown() -> None:
    before = (*(f"number {i}" for i in range(50)), "the coast is far", *(f"figure {i}" for i in range(50)))
    prefix = render(write(before, before), lines=2).prefix
    assert "100 other lines\n- the coast is far\nSaid:" in prefix


def test_a_prompt_ends_where_the_answer_comes() -> None:
    assert render(write(), lines=None).text.endswith("Y or N\nAnswer:")


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (MemoryEvent((), (), ()), "empty"),
        (MemoryEvent((), ("a",), ("a",)), "empty"),
        (MemoryEvent((Message("user", " "),), (), ()), "empty"),
        (MemoryEvent((Message("user", "a\ud800"),), (), ()), "not text"),
        (MemoryEvent((Message("user", "a"),), (), ("\x00\x01",)), "not text"),
        (MemoryEvent((Message("user", b"bytes"),), (), ()), "bytes"),  # type: ignore[arg-type]
    ],
)
def test_an_event_without_text_to_judge_is_refused(event: MemoryEvent, why: str) -> None:
    assert why in str(unreadable(event))
    with pytest.raises(ValueError, match="cannot be judged"):
        render(event, lines=None)


def test_a_removal_without_messages_can_be_judged() -> None:
    assert unreadable(MemoryEvent((), ("a",), ())) is None
