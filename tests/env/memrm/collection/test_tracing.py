"""Which lines of a memory can hold what."""

from __future__ import annotations

from collections.abc import Sequence

from mnemotune.env.memrm.collection.labels import Line, trace
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent


def write(before: Sequence[str], after: Sequence[str]) -> MemoryEvent:
    return MemoryEvent((Message("user", "..."),), tuple(before), tuple(after))


def test_a_line_can_hold_what_the_lines_held_that_it_replaces() -> None:
    a, b = ("pet", "cat"), ("flat", "small")
    events = [write([], ["x: one"]), write(["x: one"], ["x: two"]), write(["x: two"], ["x: two"])]
    first, second, third = trace(events, [[a], [b], []])
    assert first.after == (Line("x: one", frozenset({a})),)
    assert second.after == (Line("x: two", frozenset({a, b})),)
    assert second.touched == {a, b}
    assert third.touched == set()
