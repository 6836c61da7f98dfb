"""How evicted messages become memories, one writer for each mode of a policy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ..forms import TEXT, ReplyForm, items, mapping, one_of, record, some_of
from ..lm.base import BYTES_PER_TOKEN, LanguageModel, Message, Request
from ..policy import MemoryPolicy, WriteMode, label_key
from ..prompts import render
from ..replies import ReplyError, as_text, read_json_object
from .budget import cut_text
from .protocol import MemoryEvent
from .stores import Entry, MemoryState, VectorIndex

MERGE_NEIGHBOURS = 5
"""Known facts shown to the merge prompt for each new fact, as in AMemGym's AWE."""
PROFILE = ReplyForm.of("profile", mapping(TEXT))
FACTS = ReplyForm.of("facts", record(facts=items(TEXT)))
SUMMARY = ReplyForm.of("summary", record(summary=TEXT))
WHOLE_FROM = {PROFILE.name: 1, FACTS.name: 2}
"""Forms of which a reply that breaks off is read, and how deep what has to be whole stands in it."""


async def write(
    policy: MemoryPolicy,
    state: MemoryState,
    evicted: tuple[Message, ...],
    *,
    model: LanguageModel,
    index: VectorIndex,
    writer: Writer | None = None,
) -> tuple[MemoryState, MemoryEvent]:
    """Return the state after a write, and the write; a reply that is of no use changes nothing.

    Without a ``writer`` it is that of the policy's mode.
    """
    writing = Writing(policy, state, evicted, model, index)
    after = state
    with writing.forgiving():
        if writing.heard:
            after = await (writer or _WRITERS[policy.write.mode])(writing)
    return after, MemoryEvent(evicted, state.lines, after.lines, tuple(writing.raw), "; ".join(writing.faults) or None)


@dataclass(frozen=True, slots=True)
class Writing:
    """One write under way."""

    policy: MemoryPolicy
    state: MemoryState
    evicted: tuple[Message, ...]
    model: LanguageModel
    index: VectorIndex
    raw: list[str] = field(default_factory=list)
    """The model's replies."""
    faults: list[str] = field(default_factory=list)
    """Why some of them were of no use."""

    @property
    def heard(self) -> tuple[Message, ...]:
        """The messages that are written down."""
        return tuple(filter(self.hears, self.evicted))

    def hears(self, message: Message) -> bool:
        """Tell whether a message is written down."""
        return self.policy.write.roles in ("both", message.role)

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Leave out what is inside where a reply is of no use, note why, and go on."""
        try:
            yield
        except ReplyError as problem:
            self.faults.append(str(problem))

    async def ask(self, prompt: str, form: ReplyForm) -> dict[str, object]:
        """Return the reply; of notes and facts that break off what is whole, for the rest may still be told."""
        completion = await self.model.complete(Request((Message("user", prompt),), role="write", form=form))
        self.raw.append(completion.text)
        return read_json_object(completion.text, whole_from=WHOLE_FROM.get(form.name))

    def prompt(self, memories: Mapping[str, str], **others: str) -> str:
        """Return the write prompt, with what is heard, the memories that it is to show, and what ``others`` say."""
        prompts = self.policy.prompts
        slots = {"conversation": indented([message.as_json() for message in self.heard])}
        if prompts.info_types is not None:
            slots["info_types"] = prompts.info_types
        if self.policy.write.labels is not None:
            slots["labels"] = "\n".join(f"- {label}" for label in self.policy.write.labels)
        if self.policy.write.mode == "summary":
            slots["tokens"] = str(self.policy.write.tokens)
        return filled(prompts.write, memories, **(slots | others))


async def _verbatim(writing: Writing) -> MemoryState:
    return writing.state.with_new([f"{m.role}: {m.text}" for m in writing.heard])


async def _profile(writing: Writing) -> MemoryState:
    by_first_write = sorted(writing.state.entries, key=lambda entry: entry.id)
    labels = writing.policy.write.labels
    form = PROFILE if labels is None else ReplyForm.of("profile", some_of(**dict.fromkeys(labels, TEXT)))
    reply = await writing.ask(writing.prompt({_name(entry): entry.text for entry in by_first_write}), form)
    new = {as_text(name): as_text(value) for name, value in reply.items() if value is not None}
    return _union(writing.state, new if labels is None else _within_schema(new, labels))


def _name(entry: Entry) -> str:
    """Return what a profile calls an entry: one that another mode wrote has no label."""
    return entry.label or f"memory {entry.id}"


async def _summary(writing: Writing) -> MemoryState:
    state = writing.state
    reply = await writing.ask(writing.prompt({"summary": "\n".join(state.lines)}), SUMMARY)
    text = as_text(reply.get("summary") or "").strip()
    if not text:
        raise ReplyError('the reply has no text "summary"')
    matters = _matters(cut_text(text, writing.policy.write.tokens * BYTES_PER_TOKEN))
    ids = dict(zip(_counted(state.lines), (entry.id for entry in state.entries), strict=True))
    added = [matter for matter in _counted(matters) if matter not in ids]
    ids |= {matter: state.next_id + i for i, matter in enumerate(added)}
    entries = tuple(Entry(ids[matter], matter[0]) for matter in _counted(matters))
    return replace(state, entries=entries, next_id=state.next_id + len(added))


async def _facts(writing: Writing) -> MemoryState:
    known = {str(entry.id): entry.line for entry in writing.state.entries}
    given = await writing.ask(writing.prompt(known), FACTS)
    facts = [as_text(fact) for fact in listed(given, "facts") if fact and as_text(fact).strip()]
    return await _merge(writing, facts) if facts else writing.state


Writer = Callable[[Writing], Awaitable[MemoryState]]
_WRITERS: Mapping[WriteMode, Writer] = {
    "verbatim": _verbatim,
    "facts": _facts,
    "profile": _profile,
    "summary": _summary,
}


def _matters(text: str) -> list[str]:
    """Return what a summary tells: a line, with the indented ones below it."""
    matters: list[list[str]] = []
    for line in filter(str.strip, text.splitlines()):
        if matters and line[0].isspace():
            matters[-1].append(line.rstrip())
        else:
            matters.append([line.strip().removeprefix("- ")])
    return ["\n".join(lines) for lines in matters]


def _counted(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return each text with how often it stands before: under two headings of a summary the same may be told."""
    seen: Counter[str] = Counter()
    counted = []
    for text in texts:
        counted.append((text, seen[text]))
        seen[text] += 1
    return counted


def _within_schema(new: Mapping[str, str], labels: Sequence[str]) -> dict[str, str]:
    """Return what is written under the labels of a schema, however they are spelled; the rest is left out.

    A label with nothing under it is left as it was: models fill forms in with such. Raises ReplyError where nothing is
    left of what was written.
    """
    by_key = {label_key(label): label for label in labels}
    kept: dict[str, str] = {}
    named = [(by_key[label_key(name)], text) for name, text in new.items() if label_key(name) in by_key]
    for label, text in named:
        if text.strip():
            kept[label] = f"{kept[label]}\n{text}" if label in kept else text
    if new and not named:
        raise ReplyError(f"the reply writes under {', '.join(map(repr, [*new][:3]))[:80]}, outside of write.labels")
    return kept


async def _merge(writing: Writing, facts: list[str]) -> MemoryState:
    state, lines = writing.state, writing.state.lines
    near = {i for best in await writing.index.search(facts, lines, MERGE_NEIGHBOURS) for i in best}
    return await merged(writing, facts, [state.entries[i] for i in sorted(near)])


async def merged(writing: Writing, facts: list[str], known: Sequence[Entry]) -> MemoryState:
    """Return the state after new facts have changed the ``known`` ones, by the merge prompt where there are any."""
    if not known:
        return writing.state.with_new(facts)
    memories = {str(entry.id): entry.line for entry in known}
    prompt = filled(writing.policy.prompts.merge, memories, facts=indented(facts))
    reply = await writing.ask(prompt, _merge_form([*memories]))
    return _apply_merge(writing.state, reply, {entry.id for entry in known})


def _merge_form(known: Sequence[str]) -> ReplyForm:
    """Return the form of the steps by which known facts, given by their ids, change."""
    add = record(event=one_of(["ADD"]), text=TEXT)
    update = record(event=one_of(["UPDATE"]), id=one_of(known), text=TEXT)
    rest = record(event=one_of(["DELETE", "NONE"]), id=one_of(known))
    return ReplyForm.of("merge", record(memory=items({"anyOf": [add, update, rest]})))


def _union(state: MemoryState, new: dict[str, str]) -> MemoryState:
    """Overwrite equal labels and add new ones; what was written last comes last, in the order of first writes."""
    before = {_name(entry): entry for entry in state.entries}
    kept = [entry for entry in state.entries if _name(entry) not in new]
    added = [name for name in new if name not in before]
    entries = before | {name: Entry(state.next_id + i, "", name) for i, name in enumerate(added)}
    changed = (Entry(entries[name].id, text, entries[name].label) for name, text in new.items())
    written = sorted(changed, key=lambda entry: entry.id)
    return replace(state, entries=(*kept, *written), next_id=state.next_id + len(added))


def _apply_merge(state: MemoryState, reply: dict[str, object], known: set[int]) -> MemoryState:
    """Add, update and delete facts as the reply says. Raises ReplyError, changing nothing, when it makes no sense."""
    steps = listed(reply, "memory")
    entries = {entry.id: entry for entry in state.entries}
    next_id = state.next_id
    for step in steps:
        if not isinstance(step, dict):
            raise ReplyError('an item of "memory" is not an object')
        event, text = str(step.get("event", "")).upper(), as_text(step.get("text") or "")
        if event == "NONE":
            continue
        if event == "ADD" and text:
            entries[next_id] = Entry(next_id, text)
            next_id += 1
        elif event == "DELETE" or (event == "UPDATE" and text):
            identity = known_id(step.get("id"), known)
            entries.pop(identity, None)
            if event == "UPDATE":
                entries[identity] = Entry(identity, text)
        else:
            raise ReplyError(f'an item of "memory" has event {event!r} without what it needs')
    return replace(state, entries=tuple(entries.values()), next_id=next_id)


def listed(reply: dict[str, object], name: str) -> list[object]:
    """Return the list under a name, or under another where there is nothing else; a text or an object is a single item.

    Raises ReplyError when there is none.
    """
    value = reply.get(name, *reply.values()) if len(reply) == 1 else reply.get(name)
    if isinstance(value, str | dict) and name in reply:
        return [value]
    if not isinstance(value, list):
        raise ReplyError(f'the reply has no list "{name}"')
    return value


def known_id(given: object, known: set[int]) -> int:
    """Return the id, among known ones, that a reply gives. Raises ReplyError when it is none."""
    for identity in known:
        if given == str(identity) or (type(given) is int and given == identity):
            return identity
    raise ReplyError(f"the reply names memory {repr(given)[:60]}, which it was not shown")


def indented(value: object) -> str:
    """Return a value as JSON, as prompts show it."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def filled(template: str | None, memories: Mapping[str, object], **slots: str) -> str:
    """Return a prompt with its slots filled in."""
    shown = indented(memories)
    return render(template or "", memories=shown, current_memories=shown, **slots)
