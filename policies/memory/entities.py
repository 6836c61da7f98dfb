"""Facts that are only ever added, linked by what they speak of.

After Mem0 (Chhikara et al., 2025, section 2.1: facts are extracted with similar known ones in view; section 2.2: the
entities that a memory names) and the pipeline of its later versions, which adds facts and never updates nor deletes
them, and finds memories by shared entities besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Self

from ..forms import TEXT, ReplyForm, items, record
from ..replies import as_text
from .linked import LinkedMemory
from .stores import Entry, MemoryState
from .writers import Writing, listed

FORM = ReplyForm.of("facts", record(facts=items(record(text=TEXT, entities=items(TEXT)))))
MOST_ENTITIES = 8
"""Entities of one fact; a reply's others are left out."""


@dataclass(frozen=True, slots=True)
class Fact(Entry):
    """A fact, and the people, places and things that it names."""

    entities: tuple[str, ...] = ()

    def without(self, what: Callable[[str], bool], left: Set[int]) -> Self:
        """Return it without the entities of which ``what`` is true."""
        return replace(self, entities=tuple(name for name in self.entities if not what(name)))


class EntityMemory(LinkedMemory[dict[str, list[int]]]):
    """Adds facts, each with the entities that it names. A fact leads to those that share an entity with it.

    The knob ``neighbours`` says how many known facts the write prompt shows. ``prompts.merge`` is not used.
    """

    kind = Fact

    @staticmethod
    def _links_of(entries: Sequence[Entry]) -> dict[str, list[int]]:
        """Return the places of the facts that name an entity, by its name."""
        places: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            for name in _names(entry):
                places.setdefault(name, []).append(place)
        return places

    async def _write(self, writing: Writing) -> MemoryState:
        state = writing.state
        talk = "\n".join(message.text for message in writing.heard)
        known = {str(entry.id): entry.text for entry in await self._near(writing, [talk])}
        reply = await writing.ask(writing.prompt(known), FORM)
        told = dict(_fact(given) for given in listed(reply, "facts") if given)
        lines = {*state.lines}
        new = [(text, entities) for text, entities in told.items() if text and text not in lines]
        added = [Fact(state.next_id + i, text, entities=entities) for i, (text, entities) in enumerate(new)]
        return replace(state, entries=(*state.entries, *added), next_id=state.next_id + len(added))

    def _linked(self, links: dict[str, list[int]], state: MemoryState, place: int) -> Sequence[int]:
        """Return the facts that share an entity with one: those that share most first, then the newest."""
        shared = Counter(i for name in _names(state.entries[place]) for i in links[name] if i != place)
        return sorted(shared, key=lambda i: (-shared[i], -i))


def _fact(given: Any) -> tuple[str, tuple[str, ...]]:
    """Return the text of a fact of a reply, and the entities that this text names."""
    if not isinstance(given, dict):
        return as_text(given).strip(), ()
    text, names = as_text(given.get("text") or "").strip(), given.get("entities")
    entities = [as_text(name).strip() for name in names] if isinstance(names, list) else []
    named = [name for name in dict.fromkeys(entities) if name and name.casefold() in text.casefold()]
    return text, tuple(named[:MOST_ENTITIES])


def _names(entry: Entry) -> frozenset[str]:
    return frozenset(name.casefold() for name in entry.entities) if isinstance(entry, Fact) else frozenset()
