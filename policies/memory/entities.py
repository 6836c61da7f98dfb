"""Facts that are only ever added, linked by what they speak of.

After Mem0 (Chhikara et al., 2025, section 2.1: facts are extracted with similar known ones in view; section 2.2: the
entities that a memory names) and the pipeline of its later versions, which adds facts and never updates nor deletes
them, and finds memories by shared entities besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..forms import TEXT, ReplyForm, items, record
from ..lm.base import Embedder, LanguageModel
from ..policy import MemoryPolicy
from ..replies import as_text
from .linked import LinkedMemory, listed_entries
from .stores import Derived, Entry, MemoryState
from .writers import Writing, listed

FORM = ReplyForm.of("facts", record(facts=items(record(text=TEXT, entities=items(TEXT)))))
MOST_ENTITIES = 8
"""Entities of one fact; a reply's others are left out."""


@dataclass(frozen=True, slots=True)
class Fact(Entry):
    """A fact, and the people, places and things that it names."""

    entities: tuple[str, ...] = ()


class EntityMemory(LinkedMemory):
    """Adds facts, each with the entities that it names. A fact leads to those that share an entity with it.

    The knob ``neighbours`` says how many known facts the write prompt shows. ``prompts.merge`` is not used.
    """

    kind = Fact

    def __init__(self, policy: MemoryPolicy, model: LanguageModel, embedder: Embedder) -> None:
        """Start empty."""
        super().__init__(policy, model, embedder)
        self._places = Derived(_places_by_name)

    async def _write(self, writing: Writing) -> MemoryState:
        state = writing.state
        talk = "\n".join(message.text for message in writing.heard)
        (near,) = await writing.index.search([talk], state.lines, int(self.policy.knob("neighbours") or 1))
        known = {str(entry.id): entry.text for entry in listed_entries(state, near)}
        reply = await writing.ask(writing.prompt(known), FORM)
        told = dict(_fact(given) for given in listed(reply, "facts") if given)
        lines = {*state.lines}
        new = [(text, entities) for text, entities in told.items() if text and text not in lines]
        added = [Fact(state.next_id + i, text, entities=entities) for i, (text, entities) in enumerate(new)]
        return replace(state, entries=(*state.entries, *added), next_id=state.next_id + len(added))

    def _linked(self, state: MemoryState, place: int) -> Sequence[int]:
        """Return the facts that share an entity with one: those that share most first, then the newest."""
        places = self._places.of(state.entries)
        shared = Counter(i for name in _names(state.entries[place]) for i in places[name] if i != place)
        return sorted(shared, key=lambda i: (-shared[i], -i))

    async def forget(self, what: Callable[[str], bool]) -> int:
        """Remove each memory, and each message of the buffer, of whose text ``what`` is true; return how many."""
        count = await super().forget(what)
        self._places = Derived(_places_by_name)
        return count

    def _bare(self, entry: Entry, what: Callable[[str], bool], left: Sequence[int]) -> Entry:
        if not isinstance(entry, Fact):
            return entry
        return replace(entry, entities=tuple(name for name in entry.entities if not what(name)))


def _fact(given: Any) -> tuple[str, tuple[str, ...]]:
    """Return the text of a fact of a reply, and the entities that this text names."""
    if not isinstance(given, dict):
        return as_text(given).strip(), ()
    text, names = as_text(given.get("text") or "").strip(), given.get("entities")
    entities = [as_text(name).strip() for name in names] if isinstance(names, list) else []
    named = [name for name in dict.fromkeys(entities) if name and name.casefold() in text.casefold()]
    return text, tuple(named[:MOST_ENTITIES])


def _places_by_name(entries: Sequence[Entry]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        for name in _names(entry):
            places.setdefault(name, []).append(place)
    return places


def _names(entry: Entry) -> frozenset[str]:
    return frozenset(name.casefold() for name in entry.entities) if isinstance(entry, Fact) else frozenset()
