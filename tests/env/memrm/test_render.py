"""Prompts.

1. Two writes that meet the same messages share their prefix, whatever they did.
2. Nothing is lost or added by a write that its prompt does not show.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.episode import lines_beyond
from mnemotune.env.memrm.render import render, unreadable
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent
from mnemotune.policies.text import STOP_WORDS, stem, words_in_order

SAID = (Message("user", "I moved to the coast. Where do I buy bread?"), Message("assistant", "At a bakery."))
text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
memory = st.lists(text, max_size=6).map(tuple)


def write(before: tuple[str, ...] = (), after: tuple[str, ...] = (), said: tuple[Message, ...] = SAID) -> MemoryEvent:
    return MemoryEvent(said, before, after)


@given(before=memory, after=memory, other=memory)
def test_writes_that_meet_the_same_messages_share_the_prefix(
    before: tuple[str, ...], after: tuple[str, ...], other: tuple[str, ...]
) -> None:
    assert render(write(before, after)).prefix == render(write(other, other)).prefix


@given(before=memory, after=memory)
def test_every_word_that_a_write_added_is_in_the_prompt(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    shown = set(words_in_order(render(write(before, after)).text)) | set(words_in_order(" ".join(before)))
    added = {word for line in lines_beyond(after, before) for word in words_in_order(line)}
    unseen = {word for word in added - shown if word not in STOP_WORDS}
    assert {stem(word) for word in unseen} <= {stem(word) for word in shown} | {"user", "assist"}


@given(before=memory, after=memory)
def test_every_line_that_took_words_along_is_in_the_suffix(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    suffix = render(write(before, after)).suffix
    left = {stem(word) for line in after for word in words_in_order(line)}
    for line in lines_beyond(before, after):
        if any(stem(word) not in left for word in words_in_order(line) if word not in STOP_WORDS):
            assert plain(line) in plain(suffix)


def plain(text: str) -> str:
    return " ".join(re.sub('[«»"]', "", text).split())


def test_each_statement_of_the_user_has_a_number() -> None:
    prompt = render(write())
    assert prompt.prefix == "Said:\nI moved to the coast. ①\nWhere do I buy bread? ②\n"


def test_where_no_user_speaks_all_is_shown_that_was_said() -> None:
    assert "At a bakery. ①" in render(write(said=SAID[1:])).prefix


def test_the_time_at_which_something_was_said_is_left_out() -> None:
    said = (Message("user", "[Current Time: 2024-01-01 08:00:00]\nI moved."),)
    assert render(write(said=said)).prefix == "Said:\nI moved. ①\n"


def test_more_statements_than_there_are_signs_have_numbers_too() -> None:
    said = (Message("user", " ".join(f"I own {i} boats." for i in range(60))),)
    assert "I own 59 boats. (60)" in render(write(said=said)).prefix


@pytest.mark.parametrize(
    ("after", "has"),
    [
        ((), "① none\n② none"),
        (("I moved to the north.",), "① moved\n② none"),
        (("moved to the coast", "buy bread"), "① all\n② all"),
        (("moved north", "the coast is far"), "① moved\n② none"),
    ],
)
def test_each_statement_is_held_against_the_line_most_like_it(after: tuple[str, ...], has: str) -> None:
    assert render(write(after, after)).suffix == f"Memory has:\n{has}\nIs all safe?"


def test_words_that_a_removed_line_takes_along_are_marked() -> None:
    suffix = render(write(("A red boat of wood",), ("A boat of wood",))).suffix
    assert "gone: «A red» boat of wood\n" in suffix


def test_words_that_nobody_said_are_shown() -> None:
    suffix = render(write(("A boat",), ("A boat", "User resides near the sea; coast"))).suffix
    assert "new: resides near sea;\n" in suffix


def test_what_was_said_is_not_new() -> None:
    after = tuple(f"{message.role}: {message.content}" for message in SAID)
    assert "new:" not in render(write(after=after)).suffix


def test_a_line_that_only_moved_is_neither_gone_nor_new() -> None:
    suffix = render(write(("a boat", "a car"), ("a car", "a boat"))).suffix
    assert "gone:" not in suffix
    assert "new:" not in suffix


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
        render(event)


def test_a_removal_without_messages_can_be_judged() -> None:
    assert unreadable(MemoryEvent((), ("a",), ())) is None
