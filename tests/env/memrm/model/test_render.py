"""Prompts.

1. What was stated comes first and is the same whatever a write made of it.
2. A line that took words along is asked for; a line that did not is not.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.episode import lines_beyond
from mnemotune.env.memrm.model.render import statements, unreadable, whole_prompt
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent
from mnemotune.policies.text import STOP_WORDS, stem, words_in_order

SAID = (Message("user", "I moved to the coast. Where do I buy bread?"), Message("assistant", "At a bakery."))
text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
memory = st.lists(text, max_size=6).map(tuple)


def write(before: tuple[str, ...] = (), after: tuple[str, ...] = (), said: tuple[Message, ...] = SAID) -> MemoryEvent:
    return MemoryEvent(said, before, after)


def prompts(event: MemoryEvent) -> list[str]:
    return [statement.prompt.text for statement in statements(event)]


@given(before=memory, after=memory, other=memory)
def test_what_was_said_comes_first_whatever_a_write_made_of_it(
    before: tuple[str, ...], after: tuple[str, ...], other: tuple[str, ...]
) -> None:
    one, two = (
        [statement.prompt.prefix for statement in statements(event) if statement.origin == "said"]
        for event in (write(before, after), write(other, other))
    )
    assert one == two == ["said: I moved to the coast.\n", "said: Where do I buy bread?\n"]


@given(before=memory, after=memory)
def test_every_line_that_took_words_along_is_asked_for(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    asked = {statement.prompt.prefix for statement in statements(write(before, after)) if statement.origin == "gone"}
    left = {stem(word) for line in after for word in words_in_order(line)}
    for line in lines_beyond(before, after):
        if any(stem(word) not in left for word in words_in_order(line) if word not in STOP_WORDS):
            assert f"gone: {' '.join(line.split())}\n" in asked


@pytest.mark.parametrize(
    ("after", "has"),
    [
        ((), ["0 of 2", "0 of 2"]),
        (("I moved to the north.",), ["1 of 2 in 5: moved / coast.", "0 of 2"]),
        (("moved to the coast", "buy bread"), ["2 of 2 in 4", "2 of 2 in 2"]),
        (("moved north", "the coast is far"), ["1 of 2 in 2: moved / coast.", "0 of 2"]),
    ],
)
def test_each_statement_is_held_against_the_line_most_like_it(after: tuple[str, ...], has: list[str]) -> None:
    told = [prompt.split("\n")[1] for prompt in prompts(write(after, after))]
    assert told == has


def test_a_prompt_ends_with_the_question() -> None:
    assert all(prompt.endswith("\nsafe?") for prompt in prompts(write()))


def test_a_statement_knows_where_it_was_said() -> None:
    said = (Message("assistant", "Hello. I listen."), Message("user", "Yes. I moved to the coast. It is far."))
    found = [(one.origin, one.place, one.sentence) for one in statements(write(("A red boat",), (), said))]
    assert found == [("said", 1, 1), ("said", 1, 2), ("gone", 0, 0)], "'Yes.' has small words only"


def test_the_time_at_which_something_was_said_is_left_out() -> None:
    said = (Message("user", "[Current Time: 2024-01-01 08:00:00]\nI moved."),)
    assert prompts(write(said=said)) == ["said: I moved.\n0 of 1\nsafe?"]


def test_where_no_user_speaks_all_counts_that_was_said() -> None:
    assert prompts(write(said=SAID[1:])) == ["said: At a bakery.\n0 of 1\nsafe?"]


def test_words_that_a_removed_line_takes_along_are_told() -> None:
    [*_, gone] = prompts(write(("A red boat of wood",), ("A boat of wood",)))
    assert gone == "gone: A red boat of wood\n2 of 3 in 4: boat wood / red\nlines: 1 to 1, 0 newer\nsafe?"


@pytest.mark.parametrize(
    ("lines", "place", "told"),
    [(1, 0, "1 to 0, 0"), (3, 0, "3 to 1, 1"), (3, 2, "3 to 1, 0"), (6, 0, "3 to 3, 3"), (40, 8, "31 to 31, 31")],
)
def test_a_removed_line_is_shown_with_how_many_were_newer_in_rounded_numbers(lines: int, place: int, told: str) -> None:
    before = tuple(f"boat{'x' * number}" for number in range(lines))
    [*_, gone] = prompts(write(before, before[:place] + before[place + 1 :]))
    assert gone.split("\n")[2] == f"lines: {told} newer"


def test_the_size_of_the_memory_counts_where_a_part_of_what_was_said_is_kept() -> None:
    after = ("I moved.", "Where is bread?", "a boat")
    first, second, third = prompts(write((), after, (*SAID[:1], Message("user", "Cars. A boat."))))[:3]
    assert first.split("\n")[1:] == ["1 of 2 in 2: moved / coast.", "lines: 0 to 3", "safe?"]
    assert second.split("\n")[1:] == ["1 of 2 in 3: bread? / buy", "lines: 0 to 3", "safe?"]
    assert third.split("\n")[1:] == ["0 of 1", "safe?"]


def test_words_that_nobody_said_are_shown_with_what_is_missing() -> None:
    first, second = prompts(write(("A boat",), ("A boat", "home: User resides near the sea; bread to buy")))
    assert first == "said: I moved to the coast.\n0 of 2\nnew: resides near sea;\nsafe?"
    assert "new:" not in second


def test_what_was_said_is_not_new() -> None:
    after = tuple(f"{message.role}: {message.content}" for message in SAID[1:])
    assert not any("new:" in prompt for prompt in prompts(write(after=after)))


def test_a_line_that_only_moved_takes_nothing_along() -> None:
    found = statements(write(("a boat", "a car"), ("a car", "a boat")))
    assert {statement.origin for statement in found} == {"said"}


def test_a_whole_write_is_one_prompt_for_models_that_take_no_other() -> None:
    assert whole_prompt(write()) == (
        "said: I moved to the coast.\n0 of 2\nsaid: Where do I buy bread?\n0 of 2\nIs all of it safe?\n\nAnswer:"
    )


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
        statements(event)


def test_a_removal_without_messages_can_be_judged() -> None:
    assert unreadable(MemoryEvent((), ("a",), ())) is None
