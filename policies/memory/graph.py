"""A graph of relations, of which those that are no longer true are kept apart.

After Mem0's graph (Chhikara et al., 2025, section 2.2): what is told becomes relations between things, a second prompt
says which known relations a new one makes obsolete, and relations are found by the things that a query names and by
their likeness to it. There a thing is known again by the likeness of its name's vector; here by the words of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Self

from ..forms import TEXT, ReplyForm, items, one_of, record
from ..replies import ReplyError, as_text
from ..text import stems
from .linked import LinkedMemory
from .stores import Entry, MemoryState
from .writers import Writing, filled, indented, known_id, listed

RELATIONS = ReplyForm.of("facts", record(facts=items(record(source=TEXT, relation=TEXT, target=TEXT))))


@dataclass(frozen=True, slots=True)
class Edge(Entry):
    """A relation, its text, between two things."""

    source: str = ""
    target: str = ""
    outdated: tuple[str, ...] = ()
    """The lines of relations that it has made obsolete, the latest first. They are kept, and never shown."""

    @property
    def line(self) -> str:
        """The relation as it is shown and searched."""
        return " ".join(filter(None, (self.source, self.text, self.target)))

    @property
    def hidden(self) -> tuple[str, ...]:
        """The lines of relations that it has made obsolete."""
        return self.outdated

    @property
    def shown(self) -> dict[str, str]:
        """The relation as the prompt shows it that says what is obsolete."""
        return {"source": self.source, "relation": self.text, "target": self.target}

    def without(self, what: Callable[[str], bool], left: Set[int]) -> Self:
        """Return it without the obsolete relations of which ``what`` is true."""
        return replace(self, outdated=tuple(line for line in self.outdated if not what(line)))


class _Graph:
    """The things of edges, found by the words of their names."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        names = ((edge.source, edge.target) for edge in map(_as_edge, entries))
        self.things = [[words for words in map(_words, ends) if words] for ends in names]
        """By place."""
        self._by_word: dict[str, list[int]] = {}
        for place, things in enumerate(self.things):
            for word in frozenset[str]().union(*things):
                self._by_word.setdefault(word, []).append(place)
        self._having: dict[frozenset[str], list[int]] = {}

    def having(self, thing: frozenset[str]) -> list[int]:
        """Return the places of edges that have a thing, or one whose name says more or less of it, the newest first."""
        if thing not in self._having:
            self._having[thing] = self._places(thing, lambda other: other <= thing or thing <= other)
        return self._having[thing]

    def named(self, words: frozenset[str]) -> list[int]:
        """Return the places of edges with a thing whose name stands in words, the newest first."""
        return self._places(words, lambda thing: thing <= words)

    def _places(self, words: frozenset[str], fits: Callable[[frozenset[str]], bool]) -> list[int]:
        places = {place for word in words for place in self._by_word.get(word, ())}
        return [place for place in sorted(places, reverse=True) if any(map(fits, self.things[place]))]


class GraphMemory(LinkedMemory[_Graph]):
    """Writes relations, each by itself. A relation leads to those that have a thing in common with it.

    The knob ``neighbours`` says how many known relations are looked at for each new one, by ``prompts.merge``.
    """

    kind = Edge

    @staticmethod
    def _links_of(entries: Sequence[Entry]) -> _Graph:
        return _Graph(entries)

    async def _write(self, writing: Writing) -> MemoryState:
        state = writing.state
        reply = await writing.ask(writing.prompt({}), RELATIONS)
        told = {edge.line: edge for given in listed(reply, "facts") if given and (edge := _edge(given)).line}
        known = {line.casefold() for line in state.lines}
        new = [edge for line, edge in told.items() if line.casefold() not in known]
        if not new:
            return state
        new = [replace(edge, id=state.next_id + i) for i, edge in enumerate(new)]
        near = [_as_edge(entry) for entry in await self._near(writing, [edge.line for edge in new])]
        gone: Set[int] = frozenset()
        if near:
            with writing.forgiving():
                gone, new = await _settled(writing, near, new)
        kept = (entry for entry in state.entries if entry.id not in gone)
        return replace(state, entries=(*kept, *new), next_id=state.next_id + len(new))

    def _named(self, links: _Graph, query: str) -> Sequence[int]:
        return links.named(_words(query))

    def _linked(self, links: _Graph, state: MemoryState, place: int) -> Sequence[int]:
        """Return the relations of an edge's two things, those of the rarer one first, each the newest first.

        A thing of half of all relations or more, as the user is, leads nowhere.
        """
        around = sorted((links.having(thing) for thing in links.things[place]), key=len)
        return [i for near in around if 2 * len(near) < len(state.entries) for i in near if i != place]


async def _settled(writing: Writing, near: Sequence[Edge], new: Sequence[Edge]) -> tuple[set[int], list[Edge]]:
    """Return the ids of known edges that are obsolete, and the new edges with what they have made so."""
    known, numbers = {edge.id: edge for edge in near}, {*range(1, len(new) + 1)}
    listing = indented({str(i): edge.shown for i, edge in enumerate(new, 1)})
    shown = {str(edge.id): edge.shown for edge in near}
    form = record(outdated=items(record(id=one_of([*shown]), by=one_of([*map(str, numbers)]))))
    prompt = filled(writing.policy.prompts.merge, shown, facts=listing)
    reply = await writing.ask(prompt, ReplyForm.of("outdated", form))
    gone: dict[int, int] = {}
    for step in listed(reply, "outdated"):
        if not isinstance(step, dict):
            raise ReplyError('an item of "outdated" is not an object')
        gone.setdefault(known_id(step.get("id"), {*known}), known_id(step.get("by"), numbers) - 1)
    before = [[known[key] for key, by in gone.items() if by == place] for place in range(len(new))]
    lines = [tuple(line for edge in edges for line in (edge.line, *edge.outdated)) for edges in before]
    return {*gone}, [replace(edge, outdated=outdated) for edge, outdated in zip(new, lines, strict=True)]


def _edge(given: Any) -> Edge:
    """Return the relation of a reply; a text is one by itself."""
    if not isinstance(given, dict):
        return Edge(0, as_text(given).strip())
    source, relation, target = (as_text(given.get(name) or "").strip() for name in ("source", "relation", "target"))
    return Edge(0, relation, source=source, target=target)


def _words(name: str) -> frozenset[str]:
    return frozenset(stems(name))


def _as_edge(entry: Entry) -> Edge:
    return entry if isinstance(entry, Edge) else Edge(entry.id, entry.line)
