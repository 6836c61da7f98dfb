"""The memory policy: one point in the space of ways to write, store and read memories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, model_validator

from ..data.record import Record
from .knob import Knob, Range
from .prompts import Templates, render
from .space import BUILTIN, KNOBS, REGISTERED, effective, every_knob, flat, problems
from .text import composed, is_mark

WriteMode = Literal["none", "verbatim", "facts", "profile", "summary"]
Store = Literal["context", "external"]
Target = Literal["info_types", "write", "merge"]
INITIAL = ("default", "minimal", "medium")
"""The texts that a write prompt may start from, as in AMemGym; a profile has no medium one."""
SCHEMA_SLOTS = ("schema_names", "schema_list")
"""What makes a prompt an oracle: the names of the states that will be asked for, one a line or as a list."""


Label = Annotated[str, Field(pattern=r"^[^\W_][^\n:]*$", max_length=60)]
"""A label of a profile: one line, without a colon."""


def label_key(label: str) -> str:
    """Return what tells a label from others: its letters and digits."""
    return "".join(letter for letter in composed(label.casefold()) if letter.isalnum() or is_mark(letter))


def _told_apart(labels: tuple[str, ...]) -> tuple[str, ...]:
    known: dict[str, str] = {}
    for label in labels:
        key = label_key(label)
        if key in known:
            raise ValueError(f"name each once: {known[key]!r} and {label!r} are one, by their letters and digits")
        known[key] = label
    return labels


class Write(Record):
    """What becomes a memory."""

    mode: WriteMode
    """none: nothing; verbatim: messages as they are; facts: a list per write; profile: a label -> text map; summary:
    a running text, rewritten at each write."""
    roles: Literal["user", "both"] = "both"
    """Whose messages are written."""
    labels: Annotated[tuple[Label, ...], Field(min_length=1), AfterValidator(_told_apart)] | None = None
    """The only labels that a profile may have, its schema; None: any."""
    tokens: Annotated[int, Field(ge=16)] = 300
    """Most that a summary takes, in tokens of 4 bytes; what is beyond is cut."""

    @property
    def unsaid(self) -> set[str]:
        """Fields that a key and a file leave out, as they have their defaults."""
        return {name for name in ("labels", "tokens") if getattr(self, name) == Write.model_fields[name].default}


class Read(Record):
    """How memories come back."""

    order: Literal["time", "relevance"] = "time"
    """time: oldest first; relevance: most relevant first."""
    diversity: Annotated[int, Field(ge=0, le=100)] = 0
    """Percent of its likeness to the most similar newer memory that is taken off a memory's likeness to the message:
    of memories that say about the same, the newest comes back. After maximal marginal relevance (Carbonell and
    Goldstein, SIGIR 1998), which knows no age."""
    recency: Annotated[int, Field(ge=0, le=100)] = 0
    """Percent that age counts in the rank of the memories that come back, beside similarity, each scaled to 0 to 1
    among them: the budget leaves out the lowest ranks. After Generative Agents (Park et al., UIST 2023, section 4.1),
    where age counts by the hour."""

    @property
    def unsaid(self) -> set[str]:
        """Fields that a key and a file leave out, as they have their defaults."""
        return {name for name in ("diversity", "recency") if not getattr(self, name)}


class Prompts(Record):
    """The policy's texts, with named slots; None where the policy has no use for one."""

    write: str | None = None
    """Slots: {conversation}; for a profile and a summary also {memories}; for a profile with a schema {labels}, for a
    summary {tokens}; {info_types} where there are any."""
    info_types: str | None = None
    """The types of information to note; kept apart from the write prompt only where they are rewritten on their own.
    {schema_names} or {schema_list} in them makes the policy an oracle."""
    merge: str | None = None
    """Slots: {memories}, {facts}."""
    reply: str | None = None
    """The system prompt. Slot: {memories}."""


class Evolution(Record):
    """How prompts are rewritten within each user's life, by the assistant's own model, after each period's questions.

    After AMemGym (ICLR 2026), section on self-evolution: each user starts from the policy's prompts, and nothing is
    passed on to the next.
    """

    feedback: Literal["question_only", "complete"] = "complete"
    """question_only: the questions and what memory brought back; complete: also the choices and the answer given."""
    ground_truth: bool = False
    """Whether the feedback says which choice was right."""
    exposed_states: bool = False
    """Whether the feedback says which states the user told in the period."""
    targets: Annotated[tuple[Target, ...], Field(min_length=1)] = ("info_types",)
    """The prompts that are rewritten."""
    guided: bool = False
    """Whether the model is shown what some other questions need to know (``info_types`` only)."""


class Others(Record):
    """Values of knobs that other packages have registered, by name; what is the default is left out."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | str]

    @model_validator(mode="before")
    @classmethod
    def _leave_out_defaults(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        for name, value in given.items():
            if isinstance(value, bool):
                raise ValueError(f"{name}: {str(value).lower()} is no number")
        defaults = {name: REGISTERED.get(name).default for name in given if name in REGISTERED.names}
        return {name: value for name, value in given.items() if value not in (None, defaults.get(name))}

    @property
    def values(self) -> dict[str, int | str]:
        """What is not the default."""
        return self.__pydantic_extra__


class MemoryPolicy(Record):
    """How an assistant writes, stores and reads memories: its prompts and its numbers.

    A field that has no effect must be left out, so that equal behaviour means an equal ``key``. Units are messages, as
    in AMemGym (a round is two). Presets: native = none; RAG-(u,b,k) = verbatim + external; AWE-(u,b,k) = facts +
    external; AWI-(u,b) = profile + context. MemGym's compaction strategies are points too.
    """

    write: Write
    update_every: Annotated[int, Field(ge=1)] | None = None
    """Messages evicted from the buffer per write, one write a round at most; below 2 the buffer grows."""
    buffer_size: Annotated[int, Field(ge=0)] | None = None
    """Messages kept verbatim besides; None keeps all (only when nothing is written)."""
    keep_first: Annotated[int, Field(ge=0)] = 0
    """Messages at the start of a task that are never evicted, nor written: shown word for word, left out last."""
    mask: Annotated[int, Field(ge=0)] = 0
    """Newest messages of the buffer in which observations are shown; older ones are masked. 0 masks none."""
    store: Store | None = None
    """context: all memories in the prompt; external: an index; None for a summary, which is always in the prompt."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Memories that come back (external store only)."""
    buffer_share: Annotated[int, Field(ge=0, le=100)] = 50
    """Percent of a run's ``context_tokens``, the system prompt's own text left out, that the buffer gets where it and
    the memories would both take more; what one side has no use for is the other's."""
    read: Read = Read()
    prompts: Prompts = Prompts()
    knobs: Others = Others()
    evolution: Evolution | None = None
    """None: prompts stay as they are."""
    backend: Annotated[str, Field(min_length=1)] | None = None
    """The memory that runs under the policy, by its registered name; None is the built-in one."""

    @property
    def key(self) -> str:
        """The first 12 hex digits of the hash of the canonical JSON."""
        values = self.model_dump(mode="json", exclude=self.unsaid)
        for part in ("write", "read"):
            values[part] = getattr(self, part).model_dump(mode="json", exclude=getattr(self, part).unsaid)
        if self.prompts.info_types is None:
            del values["prompts"]["info_types"]
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    @property
    def unsaid(self) -> set[str]:
        """Fields that a key and a file leave out, as they have their defaults."""
        added = "keep_first", "mask", "knobs", "evolution", "backend"
        return {name for name in added if not (self.knobs.values if name == "knobs" else getattr(self, name))}

    @property
    def searches(self) -> bool:
        """Whether memories are searched by similarity, to be read or to be merged."""
        return self.store == "external" or self.write.mode == "facts"

    @property
    def label(self) -> str:
        """A short description, for example ``facts+external(2,4,30)``."""
        ranges = {knob.path: knob for knob in self._table if isinstance(knob.domain, Range)}
        numbers = [
            f"{knob.name}={value}" if knob.named or knob.unit == "%" else str(value)
            for path, value in self.values.items()
            if (knob := ranges.get(path)) is not None and value not in (None, knob.default)
        ]
        shape = "+".join(filter(None, [self.write.mode, self.store])) + (f"({','.join(numbers)})" if numbers else "")
        backend = f"{self.backend}:" if self.backend else ""
        return backend + shape + " evolving" * (self.evolution is not None) + " oracle" * self.oracle

    @property
    def _table(self) -> tuple[Knob, ...]:
        return every_knob() if self.knobs.values else KNOBS

    @property
    def values(self) -> dict[str, Any]:
        """What it says, by path, for example ``write.mode``."""
        return flat(self.model_dump())

    def knob(self, name: str) -> int | str | None:
        """Return the value of a knob that another package has registered."""
        return self.knobs.values.get(name, REGISTERED.get(name).default)

    @property
    def oracle(self) -> bool:
        """Whether a prompt is told which states will be asked for: an upper limit for prompts, nothing to ship."""
        texts = (self.prompts.write or "", self.prompts.info_types or "")
        return any(f"{{{slot}}}" in text for slot in SCHEMA_SLOTS for text in texts)

    def with_hints(self, hints: Mapping[str, str]) -> MemoryPolicy:
        """Return an oracle's policy with the hints of a task filled in by slot; any other as it is."""
        if not self.oracle:
            return self
        texts = self.prompts.model_dump(include={"write", "info_types"}, exclude_none=True)
        filled = {slot: render(text, **hints) for slot, text in texts.items()}
        return self.model_copy(update={"prompts": self.prompts.model_copy(update=filled)})

    @property
    def prompt_kinds(self) -> dict[str, str]:
        """The kind of text that each used prompt is, by its slot."""
        return prompt_kinds(self.write.mode, self.store, self.backend)

    @model_validator(mode="before")
    @classmethod
    def _fill_prompts(cls, given: Any, info: ValidationInfo) -> Any:
        """Fill in the texts of the context's ``templates`` where the policy uses a prompt and gives none."""
        if not isinstance(given, dict):
            return given
        write, prompts = given.get("write"), given.get("prompts") or {}
        mode = _given(write, "mode")
        if isinstance(prompts, Prompts):
            prompts = prompts.model_dump()
        if mode is None or not isinstance(prompts, dict):
            return given
        templates = (info.context or {}).get("templates") or Templates.bundled()
        initial, given = given.get("initial", "default"), {k: v for k, v in given.items() if k != "initial"}
        filled = {slot: text for slot, text in prompts.items() if text is not None}
        kinds = prompt_kinds(mode, given.get("store"), given.get("backend"))
        start = {slot: templates.starting(kind) for slot, kind in kinds.items()}
        if mode == "profile" and _given(write, "labels"):
            if "write" not in filled and (initial != "default" or _evolves_info_types(given.get("evolution"))):
                raise ValueError("write.labels: no bundled text has both them and `initial` or info_types that evolve")
            start |= {"write": templates.write_profile_labels}
        owner = f"backend: {given['backend']}" if given.get("backend") else f"write.mode: {mode}"
        whole = start | _initial_write(kinds.get("write", ""), initial, filled, templates, owner=owner) | filled
        apart = _evolves_info_types(given.get("evolution"))
        if (apart or "info_types" in filled) and "write" not in filled:
            whole["write"] = getattr(templates, kinds.get("write", ""), None)
        text, types = whole.get("write"), whole.get("info_types", templates.info_types)
        if isinstance(text, str) and isinstance(types, str) and "{info_types}" in text:
            whole |= {"info_types": types} if apart else {"write": render(text, info_types=types), "info_types": None}
        return {**given, "prompts": whole}

    @model_validator(mode="after")
    def _check(self) -> MemoryPolicy:
        faults = [*problems(self.values, self._table), *self._buffered(), *self._without_place()]
        faults += [*self._slots(), *self._evolving()]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _buffered(self) -> Iterator[str]:
        """Yield what is wrong with the two numbers of the buffer, which only go together."""
        written, sized, paced = self.write.mode != "none", self.buffer_size is not None, self.update_every is not None
        if written and not sized:
            yield "buffer_size: needed when something is written"
        if (written or sized) and not paced:
            yield "update_every: needed when messages are evicted from the buffer"
        if paced and not (written or sized):
            yield "update_every: has no effect when all messages are kept; leave it out"

    def _without_place(self) -> Iterator[str]:
        """Yield what is wrong with the parts of other packages, and with types of information that nothing holds."""
        if self.backend == BUILTIN:
            yield "backend: has no effect with the built-in memory; leave it out"
        for name, value in self.knobs.values.items():
            if name not in REGISTERED.names:
                yield f"knobs.{name}: no such knob; install or register what brings it"
            elif (domain := REGISTERED.get(name).domain) is not None and not domain.allows(value):
                yield f"knobs.{name}: {value!r} is not allowed; it is searched among {domain}"
        if self.prompts.info_types is not None and "{info_types}" not in (self.prompts.write or ""):
            yield "prompts.info_types: has no effect unless prompts.write holds {info_types}"

    def _slots(self) -> Iterator[str]:
        for slot, kind in self.prompt_kinds.items():
            text = getattr(self.prompts, slot)
            missing = [] if text is None else Templates.missing_slots(kind, text)
            yield from (f"prompts.{slot}: lacks {{{name}}}" for name in missing)
        if self.write.mode == "profile" and ("{labels}" in (self.prompts.write or "")) != bool(self.write.labels):
            yield "prompts.write: holds {labels} where write.labels is given, and only there"

    def _evolving(self) -> Iterator[str]:
        if self.evolution is None:
            return
        targets, there = self.evolution.targets, self.prompts.model_dump()
        yield from (f"evolution.targets: the policy has no prompt {t!r}" for t in targets if there[t] is None)
        if len(set(targets)) < len(targets) or {"info_types", "write"} <= set(targets):
            yield "evolution.targets: name each prompt once, and info_types or write, whose part they are"
        if self.evolution.guided and "info_types" not in targets:
            yield "evolution.guided: has no effect unless info_types are rewritten; leave it out"


def _given(record: Any, name: str) -> Any:
    """Return a field of a record, checked or not yet."""
    return record.get(name) if isinstance(record, dict) else getattr(record, name, None)


def prompt_kinds(mode: WriteMode, store: Store | None, backend: str | None = None) -> dict[str, str]:
    """Return the kind of text that each prompt is which a policy uses, by its slot."""
    used = effective({"write.mode": mode, "store": store or "context", "backend": backend}, KNOBS)
    return {knob.slot: knob.name for knob in KNOBS if knob.slot and knob.name in used}


def default_prompts(mode: WriteMode, store: Store | None, templates: Templates | None = None) -> dict[str, str]:
    """Return the text that each prompt of a built-in memory starts from; without ``templates`` the bundled one."""
    texts = templates or Templates.bundled()
    kinds = prompt_kinds(mode, store)
    return {slot: texts.starting(kind) for slot, kind in kinds.items()}


def _initial_write(
    kind: str, initial: Any, filled: Collection[str], templates: Templates, *, owner: str
) -> dict[str, str]:
    """Return the write prompt of a kind that ``initial`` names; none where it is the default one."""
    if initial == "default":
        return {}
    if "write" in filled:
        raise ValueError("initial: has no effect beside prompts.write; leave one of them out")
    there = [name for name in INITIAL if name == "default" or hasattr(templates, f"{kind}_{name}")]
    if initial not in there:
        raise ValueError(f"initial: {owner} can start from {', '.join(there)}, not from {initial!r}")
    return {"write": getattr(templates, f"{kind}_{initial}")}


def _evolves_info_types(evolution: Any) -> bool:
    """Tell whether an evolution, checked or not yet, rewrites the types of information."""
    if evolution is None:
        return False
    targets = _given(evolution, "targets")
    return targets is None or (isinstance(targets, Collection) and "info_types" in targets)
