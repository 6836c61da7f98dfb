"""Messages kept as notes that are described, linked to each other, and described anew as others come.

After A-Mem (Xu et al., 2025): a note keeps what was said, with keywords, tags and a context (section 3.1), is linked
to notes near it (3.2), may change the description of those (3.3), and brings linked notes along when it is found
(3.4). There each message is described by a call of its own; here one call describes all that leaves the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Self

from ..forms import TEXT, ReplyForm, items, one_of, record
from ..lm.base import BYTES_PER_TOKEN
from ..replies import ReplyError, as_text
from .budget import cut_text
from .linked import LinkedMemory
from .stores import Entry, MemoryState
from .writers import Writing, filled, indented, known_id

DESCRIPTION = {"keywords": items(TEXT), "tags": items(TEXT), "context": TEXT}
MOST_WORDS = 8
"""Keywords, and tags, of one note; a reply's others are left out."""
MOST_SHOWN = 200
"""Tokens of a note's text in the prompt that links notes: a message may be as long as a file."""


@dataclass(frozen=True, slots=True)
class Note(Entry):
    """A message with its description and its links, by the ids of the notes that it leads to."""

    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    context: str = ""
    links: tuple[int, ...] = ()

    @property
    def line(self) -> str:
        """The note as it is shown and searched: the text, and in brackets what describes it."""
        words = ", ".join(dict.fromkeys((*self.keywords, *self.tags)))
        about = " ".join(filter(None, (self.context, words and f"Keywords: {words}.")))
        return f"{self.text} ({about})" if about else self.text

    @property
    def tellings(self) -> tuple[str, ...]:
        """The texts by any of which it is forgotten: what describes it says nothing new."""
        return self.line, self.text

    @property
    def shown(self) -> dict[str, Any]:
        """The note as the prompt that links notes shows it."""
        text = cut_text(self.text, MOST_SHOWN * BYTES_PER_TOKEN)
        return {"text": text, "keywords": [*self.keywords], "tags": [*self.tags], "context": self.context}

    def without(self, what: Callable[[str], bool], left: Set[int]) -> Self:
        """Return it without the keywords and tags of which ``what`` is true, and without links but to ids ``left``."""
        keywords, tags = (tuple(word for word in words if not what(word)) for words in (self.keywords, self.tags))
        links = tuple(other for other in self.links if other in left)
        return replace(self, keywords=keywords, tags=tags, links=links)


Ways = tuple[dict[int, int], dict[int, list[int]]]
"""The place of each note, and the places of those that are linked to it, both by its id."""


class NoteMemory(LinkedMemory[Ways]):
    """Keeps messages as notes, and links them to the nearest known ones. A note leads to either side of its links.

    A message of which a reply says nothing, or nothing of use, is kept without a description. The knob ``neighbours``
    says how many known notes are looked at for each new one, by ``prompts.merge``.
    """

    kind = Note

    @staticmethod
    def _links_of(entries: Sequence[Entry]) -> Ways:
        behind: dict[int, list[int]] = {}
        for place, entry in enumerate(entries):
            for other in dict.fromkeys(_as_note(entry).links):
                behind.setdefault(other, []).append(place)
        return {entry.id: place for place, entry in enumerate(entries)}, behind

    async def _write(self, writing: Writing) -> MemoryState:
        state = writing.state
        new = [Note(state.next_id + i, f"{m.role}: {m.text}") for i, m in enumerate(writing.heard)]
        with writing.forgiving():
            new = await _with_descriptions(writing, new)
        near = [_as_note(entry) for entry in await self._near(writing, [note.line for note in new])]
        changed: Mapping[int, Note] = {}
        if near:
            with writing.forgiving():
                changed, new = await _linked(writing, near, new)
        kept = (changed.get(entry.id, entry) for entry in state.entries)
        return replace(state, entries=(*kept, *new), next_id=state.next_id + len(new))

    def _linked(self, links: Ways, state: MemoryState, place: int) -> Sequence[int]:
        """Return the notes that a note is linked to, and then those that are linked to it, the newest first."""
        places, behind = links
        note = _as_note(state.entries[place])
        return [*(places[other] for other in note.links if other in places), *reversed(behind.get(note.id, ()))]


async def _with_descriptions(writing: Writing, notes: Sequence[Note]) -> list[Note]:
    """Return the notes of the messages that are written, each with what the model says of it."""
    numbered = indented([{"number": i, **message.as_json()} for i, message in enumerate(writing.heard, 1)])
    described = dict(enumerate(notes, 1))
    form = ReplyForm.of("notes", record(notes=items(record(message=one_of([*map(str, described)]), **DESCRIPTION))))
    for step in _steps(await writing.ask(writing.prompt({}, conversation=numbered), form), "notes"):
        with writing.forgiving():
            number = known_id(step.get("message"), {*described})
            described[number] = _described(described[number], step)
    return [*described.values()]


async def _linked(writing: Writing, near: Sequence[Note], new: Sequence[Note]) -> tuple[dict[int, Note], list[Note]]:
    """Return the known notes that are described anew, by id, and the new ones with their links."""
    known = {note.id: note for note in near}
    shown = {str(note.id): note.shown for note in near}
    listing = indented({str(i): note.shown for i, note in enumerate(new, 1)})
    reply = await writing.ask(
        filled(writing.policy.prompts.merge, shown, facts=listing), _links_form([*shown], len(new))
    )
    links: list[list[int]] = [[] for _ in new]
    for step in _steps(reply, "links"):
        with writing.forgiving():
            place = known_id(step.get("note"), {*range(1, len(new) + 1)}) - 1
            others = step.get("to") or []
            links[place] += [known_id(other, {*known}) for other in (others if isinstance(others, list) else [others])]
    changed: dict[int, Note] = {}
    for step in _steps(reply, "changes"):
        with writing.forgiving():
            note = known[known_id(step.get("id"), {*known})]
            changed[note.id] = _described(changed.get(note.id, note), step)
    return changed, [replace(note, links=tuple(dict.fromkeys(to))) for note, to in zip(new, links, strict=True)]


def _links_form(known: Sequence[str], count: int) -> ReplyForm:
    link = record(note=one_of([str(i) for i in range(1, count + 1)]), to=items(one_of(known)))
    change = record(id=one_of(known), **DESCRIPTION)
    return ReplyForm.of("links", record(links=items(link), changes=items(change)))


def _steps(reply: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list in a reply, none where there is no such list. Raises ReplyError for others."""
    steps = reply.get(name) or []
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ReplyError(f'"{name}" is not a list of objects')
    return steps


def _described(note: Note, given: Mapping[str, Any]) -> Note:
    """Return a note with the parts of a description that are given."""
    context = as_text(given["context"]).strip() if given.get("context") else note.context
    keywords, tags = _words(given.get("keywords"), note.keywords), _words(given.get("tags"), note.tags)
    return replace(note, context=context, keywords=keywords, tags=tags)


def _words(given: Any, before: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a list, each once; those ``before`` where there is no list."""
    if not isinstance(given, list):
        return before
    return tuple(dict.fromkeys(filter(None, (as_text(word).strip() for word in given))))[:MOST_WORDS]


def _as_note(entry: Entry) -> Note:
    return entry if isinstance(entry, Note) else Note(entry.id, entry.line)
