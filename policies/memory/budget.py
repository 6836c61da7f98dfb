"""One budget for what memory puts before a model: what fits is shown, the least worth showing is left out."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from ..lm.base import BYTES_PER_TOKEN, Message, ToolCall
from .protocol import Context, Item

CUT = " [cut]"
"""The end of a text that was cut."""
LINE = "- \n"
"""What an item takes besides its text."""
LEAST_BYTES = 32
"""A text is not cut to less than this; it is left out."""


def within(context: Context, tokens: int | None, *, buffer_share: float) -> Context:
    """Return as much of a context as fits into ``tokens``; None is no limit.

    Messages get ``buffer_share`` of what the template leaves, and each side gets what the other has no use for. The
    oldest messages and the items of the lowest rank are left out first, what is pinned last: of pinned messages the
    first are kept. A unit that would not fit by itself is cut, as is a template.
    """
    if tokens is None or context.tokens <= tokens:
        return context
    bare = replace(context, items=(), messages=(), pinned=0)
    if bare.tokens > tokens:
        template = cut_text(bare.render()[0].content, tokens * BYTES_PER_TOKEN) or None
        left_out = context.left_out + len(context.items) + len(units_of(context.messages))
        return Context(template=template, left_out=left_out, cut=context.cut + 1)
    pinned = replace(bare, items=tuple(item for item in context.items if item.pinned))
    start = _start(context, tokens - pinned.tokens)
    if start.messages != context.messages[: context.pinned]:
        return _best(start, tokens)
    taken = _tokens(start.messages)
    wanted = replace(context, messages=())
    room = max(int((tokens - bare.tokens - taken) * buffer_share), tokens - wanted.tokens - taken)
    shown = _newest(context, min(room, tokens - pinned.tokens - taken))
    return _best(shown, tokens)


def units_of(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Return messages in units that stay together: a tool call with its results, any other message by itself."""
    units: list[tuple[Message, ...]] = []
    for message in messages:
        if message.role == "tool" and units and units[-1][0].tool_calls:
            units[-1] = (*units[-1], message)
        else:
            units.append((message,))
    return units


def _start(context: Context, room: int) -> Context:
    """Keep the pinned messages alone, as far as they fit into ``room`` tokens; where not all do, the pinned items."""
    units, others = units_of(context.messages[: context.pinned]), units_of(context.messages[context.pinned :])
    kept: list[Message] = []
    for unit in units:
        if _tokens(unit) > room:
            part = _cut_unit(unit, room) or ()
            items = tuple(item for item in context.items if item.pinned)
            left_out = len(units) + len(others) + len(context.items) - len(items) - len(units_of([*kept, *part]))
            messages, cut = (*kept, *part), context.cut + bool(part)
            left_out += context.left_out
            return Context(items, messages, context.template, left_out, cut, pinned=len(messages))
        kept += unit
        room -= _tokens(unit)
    return replace(context, messages=tuple(kept))


def _newest(context: Context, room: int) -> Context:
    """Keep the newest messages that fit into ``room`` tokens, and those that are pinned."""
    start, units = context.messages[: context.pinned], units_of(context.messages[context.pinned :])
    kept: list[tuple[Message, ...]] = []
    free, cut = room, 0
    for unit in reversed(units):
        size = _tokens(unit)
        part = unit if size <= free else _cut_unit(unit, free) if size > room else None
        if part is None:
            break
        kept.insert(0, part)
        free -= _tokens(part)
        if part is not unit:
            cut = 1
            break
    messages = (*start, *(message for unit in kept for message in unit))
    left_out = context.left_out + len(units) - len(kept)
    return replace(context, messages=messages, left_out=left_out, cut=context.cut + cut)


def _best(context: Context, tokens: int) -> Context:
    """Keep the items of the highest ranks with which the context fits into ``tokens``."""
    items, frame = context.items, frame_of(context.template)
    order = sorted(range(len(items)), key=lambda i: (not items[i].pinned, items[i].rank))
    room = frame.room((tokens - _tokens(context.messages)) * BYTES_PER_TOKEN)
    ends = [*accumulate(len(LINE) + _size(items[i].text) for i in order)]
    count = bisect_right(ends, room)
    kept, cut = {i: items[i] for i in order[:count]}, 0
    if count < len(items):
        following, taken = items[order[count]], ends[count - 1] if count else 0
        left = int(room) - taken - len(LINE)
        if len(LINE) + _size(following.text) > room and left >= LEAST_BYTES:
            kept[order[count]] = replace(following, text=cut_text(following.text, left))
            count, cut = count + 1, 1
    shown = tuple(kept[i] for i in sorted(kept))
    return replace(context, items=shown, left_out=context.left_out + len(items) - count, cut=context.cut + cut)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a template takes besides the items that it shows."""

    size: int
    """Bytes without an item."""
    times: int
    """How often it shows them."""

    def room(self, size: int) -> float:
        """Return the bytes for the items of one list, each with its LINE, when everything is to fit into ``size``."""
        return (size - self.size) // self.times + len("\n") if self.times else math.inf


@lru_cache(maxsize=256)
def frame_of(template: str | None) -> Frame:
    """Return what a template takes; no template shows no item."""
    bare, one = (
        sum(message.size for message in Context((Item("", text, 0),), template=template).render()) for text in ("", "x")
    )
    times = one - bare
    return Frame(bare - times * len("- "), times)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _cut_unit(unit: tuple[Message, ...], tokens: int) -> tuple[Message, ...] | None:
    """Cut the longest texts of a unit until it fits; None where not even their beginnings do."""

    def short(size: int) -> tuple[Message, ...]:
        return tuple(
            replace(
                message,
                content=cut_text(message.content, size),
                tool_calls=tuple(_cut_call(call, size) for call in message.tool_calls),
            )
            for message in unit
        )

    sizes = _sizes([text for m in unit for text in (m.content, *(call.arguments for call in m.tool_calls))])
    fitting = bisect_right(sizes, tokens, key=lambda size: _tokens(short(size)))
    return short(sizes[fitting - 1]) if fitting else None


def _cut_call(call: ToolCall, size: int) -> ToolCall:
    """Cut a call's arguments, which stay a JSON object: some servers read them."""
    arguments = cut_text(call.arguments, size)
    return call if arguments == call.arguments else replace(call, arguments=json.dumps({"cut": arguments}))


def cut_text(text: str, size: int) -> str:
    """Return a text of at most ``size`` bytes, marked where it was cut; nothing where not even the mark fits."""
    whole = text.encode("utf-8", "surrogatepass")
    if len(whole) <= size:
        return text
    return "" if size < len(CUT) else whole[: size - len(CUT)].decode("utf-8", "ignore") + CUT


def _sizes(texts: Sequence[str]) -> range:
    """Return the sizes in bytes that the longest of some texts can be cut to."""
    return range(LEAST_BYTES, max(len(text.encode("utf-8", "surrogatepass")) for text in texts))


def _tokens(messages: Sequence[Message]) -> int:
    return sum(message.tokens for message in messages)
