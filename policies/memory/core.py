"""A small core that always stands in the context, edited line by line, and an archive that is searched.

After MemGPT (Packer et al., 2023, section 2: the model edits a working context of fixed size by functions that append
and replace, and keeps the rest in archival storage, which is searched) and Letta, which grew out of it. The model of
those is called until it has made room; here the oldest lines move to the archive where the core is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..forms import TEXT, ReplyForm, items, one_of, record
from ..lm.base import Message
from ..replies import ReplyError, as_text
from .budget import LINE
from .protocol import Item
from .stores import Entry, MemoryState
from .typed import TypedMemory
from .writers import Writing, known_id, listed


@dataclass(frozen=True, slots=True)
class Line(Entry):
    """A line of the core, or of the archive."""

    archived: bool = False


class CoreMemory(TypedMemory):
    """Keeps lines in a core, all of which is shown, and in an archive, of which the most similar come back.

    The knob ``core_tokens`` says how much the core takes. ``prompts.merge`` is not used.
    """

    kind = Line

    async def _write(self, writing: Writing) -> MemoryState:
        state, limit = writing.state, int(self.policy.knob("core_tokens") or 0)
        core = {entry.id: entry for entry in state.entries if _in_core(entry)}
        known = {str(key): entry.text for key, entry in core.items()}
        reply = await writing.ask(writing.prompt(known, tokens=str(limit)), _form([*known]))
        return _within(_edited(state, {*core}, listed(reply, "core")), limit)

    async def _found(self, query: str, state: MemoryState, top_k: int) -> list[int]:
        """Return the places of the core's lines, the newest first, and then of what is found in the archive."""
        core = [i for i, entry in enumerate(state.entries) if _in_core(entry)]
        archive = sorted({*range(len(state.entries))} - {*core})
        return [*reversed(core), *await self._most_similar(query, state, archive, top_k)]

    def _item(self, entry: Entry, rank: int) -> Item:
        return replace(super()._item(entry, rank), pinned=_in_core(entry))


def _form(core: Sequence[str]) -> ReplyForm:
    add = record(event=one_of(["APPEND", "ARCHIVE"]), text=TEXT)
    change = record(event=one_of(["REPLACE"]), id=one_of(core), text=TEXT)
    return ReplyForm.of("core", record(core=items({"anyOf": [add, change]})))


def _edited(state: MemoryState, core: set[int], steps: Sequence[object]) -> MemoryState:
    """Append, replace and archive lines as a reply says; a line that is replaced by nothing is removed.

    Raises ReplyError, changing nothing, when a step makes no sense.
    """
    entries = {entry.id: entry for entry in state.entries}
    next_id = state.next_id
    for step in steps:
        if not isinstance(step, dict):
            raise ReplyError('an item of "core" is not an object')
        event, text = str(step.get("event", "")).upper(), as_text(step.get("text") or "").strip()
        if event == "REPLACE":
            identity = known_id(step.get("id"), core)
            entries.pop(identity, None)
            if text:
                entries[identity] = Line(identity, text)
        elif event in ("APPEND", "ARCHIVE") and text:
            entries[next_id] = Line(next_id, text, archived=event == "ARCHIVE")
            next_id += 1
        else:
            raise ReplyError(f'an item of "core" has event {event!r} without what it needs')
    return replace(state, entries=tuple(entries.values()), next_id=next_id)


def _within(state: MemoryState, limit: int) -> MemoryState:
    """Return a state whose core takes at most ``limit`` tokens.

    A line that is longer by itself moves to the archive, and then the oldest lines do.
    """
    room, entries = limit, [*state.entries]
    for place, entry in reversed([*enumerate(entries)]):
        if _in_core(entry):
            tokens = Message("system", LINE + entry.line).tokens
            room -= tokens if tokens <= limit else 0
            if tokens > limit or room < 0:
                entries[place] = Line(entry.id, entry.text, entry.label, archived=True)
    return replace(state, entries=tuple(entries))


def _in_core(entry: Entry) -> bool:
    """Tell whether an entry stands in the core; one that was written in another way does not."""
    return isinstance(entry, Line) and not entry.archived
