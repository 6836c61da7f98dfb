"""One budget for what memory puts before a model: what fits is shown, the least worth showing is left out."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from ..lm.base import BYTES_PER_TOKEN, Message, ToolCall
from .protocol import Context

CUT = " [cut]"
"""The end of a text that was cut."""
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
    items = context.items
    order = sorted(range(len(items)), key=lambda i: (not items[i].pinned, items[i].rank))

    def first(count: int, text: str | None = None) -> Context:
        """Keep so many, the last of them with another ``text`` where one is given."""
        chosen = {i: items[i] for i in order[:count]}
        if text is not None:
            chosen[order[count - 1]] = replace(items[order[count - 1]], text=text)
        return replace(context, items=tuple(chosen[i] for i in sorted(chosen)))

    count = _guess([items[i].text for i in order], (tokens - first(0).tokens) * BYTES_PER_TOKEN)
    while count < len(items) and first(count + 1).tokens <= tokens:
        count += 1
    while count and first(count).tokens > tokens:
        count -= 1
    shown, cut = first(count), 0
    if count < len(items):
        text = items[order[count]].text
        if replace(context, items=(items[order[count]],)).tokens > tokens:
            sizes = _sizes([text])
            fitting = bisect_right(sizes, tokens, key=lambda size: first(count + 1, cut_text(text, size)).tokens)
            if fitting:
                shown, count, cut = first(count + 1, cut_text(text, sizes[fitting - 1])), count + 1, 1
    return replace(shown, left_out=context.left_out + len(items) - count, cut=context.cut + cut)


def _guess(texts: Sequence[str], room: int) -> int:
    """Return about how many items of these texts fit into ``room`` bytes, each a line of a list."""
    sizes = accumulate(len(text.encode("utf-8", "surrogatepass")) + len("- \n") for text in texts)
    return bisect_right([*sizes], room)


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
