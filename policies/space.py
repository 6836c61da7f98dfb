"""The policy space: one table of knobs, from which everything that knows the space is read off.

Samplers, distances, crossing, what a language model may edit, ``search.space``, MLflow's params, the checks of a
policy and the table in the docs derive from ``KNOBS``. To add a knob, add its row and the code that acts on it. Another
package registers its row in ``REGISTERED``, with a path of ``knobs.NAME`` and a default, and reads
``policy.knob(NAME)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, create_model

from ..data.registry import Registry
from .knob import Choices, Knob, Point, Range, Values, When

A_ROUND = 2
"""Messages of one round: with fewer evicted at once the buffer would grow, since each round adds two."""

BUILTIN = "builtin"
"""The memory that runs under a policy that names none."""
NATIVE = ("linked-facts", "graph", "linked-notes", "episodes", "playbook", "core-and-archive")
"""The memories that ship besides; with another ``write.mode`` than facts each is the built-in one."""
PACKAGES = ("mem0ai", "mem0ai-kuzu", "langmem", "a-mem-package", "nemori-package")
"""Memories that are packages of others, which write and search by means of their own."""

STORING = ("verbatim", "facts", "profile")
WRITING = (*STORING, "summary")
WRITTEN = When("mode", WRITING, "when something is written")
STORED = When("mode", STORING, "when something is written, a summary apart")
EVICTED = When("mode", WRITING, "when messages are evicted from the buffer")
NOT_WRITTEN = When("mode", ("none",), "with write.mode: none")
LATEST_KEPT = When("none.window", ("last",), "with write.mode: none, when the latest messages are kept")
FACTS = When("mode", ("facts",), "with write.mode: facts")
PROFILE = When("mode", ("profile",), "with write.mode: profile")
SUMMARY = When("mode", ("summary",), "with write.mode: summary")
CONTEXT = When("store", ("context",), "with store: context")
EXTERNAL = When("store", ("external",), "with store: external")


def _under(*backends: str) -> When:
    """Return the condition that one of some memories writes facts."""
    *others, last = backends
    names = f"{', '.join(others)} or {last}" if others else last
    return FACTS & When("backend", backends, f"with backend: {names}")


LINKING = _under("linked-facts", "graph", "linked-notes")
LOOKING = _under("linked-facts", "graph", "linked-notes", "episodes")
LINKED_FACTS, LINKED_NOTES, GRAPH = _under("linked-facts"), _under("linked-notes"), _under("graph")
EPISODES, PLAYBOOK, CORE = _under("episodes"), _under("playbook"), _under("core-and-archive")
OURS = When("backend", PACKAGES, "unless a package remembers", unless=True)
OUR_WRITES, OUR_SEARCH = WRITTEN & OURS, EXTERNAL & OURS
OUR_FACTS = FACTS & When("backend", (*NATIVE, *PACKAGES), "unless another memory has prompts of its own", unless=True)
BUFFER = Range((0, 32), least=0)
MESSAGE_TOKENS, MEMORY_TOKENS = 25, 12
"""About the least that messages and memories take of a budget on the bundled users with the embedded model: messages
20 to 60 tokens, memories of a profile 12, facts 15 to 19."""

KNOBS: tuple[Knob, ...] = (
    Knob("mode", "write.mode", Choices(("none", *STORING), named=("summary",)), key="modes",
         meaning="what becomes a memory: nothing, messages as they are, a list of facts, a map of label to text, or a "
         "running summary"),
    Knob("backend", "backend", Choices((BUILTIN,), named=NATIVE, registered=True), FACTS, key="backends",
         default=BUILTIN, named=True, ships=(BUILTIN, *NATIVE),
         meaning="which memory writes the facts and finds them: the built-in one, or another by its registered name"),
    Knob("none.window", "update_every", Choices(("all", "last")), NOT_WRITTEN, key="windows",
         held={"all": None, "last": A_ROUND}, meaning="which messages are kept word for word: all, or the latest"),
    Knob("none.buffer_size", "buffer_size", BUFFER, LATEST_KEPT, "messages", key="buffer_size",
         tokens=MESSAGE_TOKENS, usual=4, meaning="latest messages that are kept word for word"),
    Knob("update_every", "update_every", Range((2, 16), ends=(A_ROUND,)), EVICTED, "messages", ("write",),
         meaning="messages that leave the buffer and are written down at a time"),
    Knob("buffer_size", "buffer_size", BUFFER, WRITTEN, "messages", ("read",),
         tokens=MESSAGE_TOKENS, usual=4, meaning="latest messages that are kept word for word besides the memories"),
    Knob("roles", "write.roles", Choices(("user", "both")), OUR_WRITES, "", ("write",), default="both",
         meaning="whose messages are written down"),
    Knob("store", "store", Choices(("context", "external")), STORED, key="stores",
         meaning="where memories are kept: all of them in the prompt, or in an index"),
    Knob("top_k", "top_k", Range((2, 60)), EXTERNAL, "memories", ("read",), part="retrieval",
         tokens=MEMORY_TOKENS, usual=30, meaning="memories that are brought back for each message"),
    Knob("order", "read.order", Choices(("time", "relevance")), EXTERNAL, "", ("read",), part="retrieval",
         default="time", meaning="how the memories that are brought back are laid out"),
    Knob("diversity", "read.diversity", Range((0, 100), least=0, most=100, log=False), OUR_SEARCH, "%", ("read",),
         part="retrieval", default=0,
         meaning="percent of its likeness to a newer memory that a memory loses when the most similar are looked for"),
    Knob("recency", "read.recency", Range((0, 100), least=0, most=100, log=False), OUR_SEARCH, "%", ("read",),
         part="retrieval", default=0,
         meaning="percent that age counts, beside similarity, when not all that are brought back fit the budget"),
    Knob("buffer_share", "buffer_share", Range((0, 100), least=0, most=100, log=False), WRITTEN, "%", ("read",),
         default=50, named=True,
         meaning="percent of the budget that the latest messages get where they and the memories would both take more"),
    Knob("keep_first", "keep_first", Range((0, 8), least=0), None, "messages", ("read",), default=0, named=True,
         meaning="messages at the start of a task that stay in view word for word, and are left out after all others"),
    Knob("mask", "mask", Range((2, 32), least=0), None, "messages", ("read",), default=0, named=True,
         meaning="latest messages in which observations are shown; in older ones a mark stands for them; 0 masks none"),
    Knob("summary_tokens", "write.tokens", Range((64, 1024), least=16), SUMMARY, "tokens", ("write", "read"),
         default=300, named=True, meaning="most that the running summary takes"),
    Knob("schema", "write.labels", None, PROFILE, "", ("write",), part="write prompt",
         meaning="the only labels that a profile may have; any labels where a policy has no such list"),
    Knob("write_profile", "prompts.write", None, PROFILE, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant which memories about the user to write, as a map of label to text"),
    Knob("write_facts", "prompts.write", None, OUR_FACTS, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant which facts about the user to write"),
    Knob("write_linked_facts", "prompts.write", None, LINKED_FACTS, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant which facts about the user to add, and what each of them names"),
    Knob("write_linked_notes", "prompts.write", None, LINKED_NOTES, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant how to describe the messages that are kept as notes"),
    Knob("write_playbook", "prompts.write", None, PLAYBOOK, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant which lessons to draw for the list of what helps to serve the user"),
    Knob("write_relations", "prompts.write", None, GRAPH, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant which facts about the user to write as relations between things"),
    Knob("write_episodes", "prompts.write", None, EPISODES, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant how to divide a talk into episodes, and what of the user to tell in each"),
    Knob("edit_core", "prompts.write", None, CORE, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant which facts about the user to write into the core, and which into the archive"),
    Knob("write_summary", "prompts.write", None, SUMMARY, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant how to rewrite the running summary of what is no longer in view"),
    Knob("merge", "prompts.merge", None, OUR_FACTS, "", ("read",), part="write prompt",
         meaning="tells the assistant how new facts change the known ones"),
    Knob("link_notes", "prompts.merge", None, LINKED_NOTES, "", ("read",), part="write prompt",
         meaning="tells the assistant which known notes new ones belong with, and when to describe a known one anew"),
    Knob("edit_playbook", "prompts.merge", None, PLAYBOOK, "", ("read",), part="write prompt",
         meaning="tells the assistant how lessons change the items of the list, by their numbers"),
    Knob("settle_relations", "prompts.merge", None, GRAPH, "", ("read",), part="write prompt",
         meaning="tells the assistant which known relations new ones make obsolete"),
    Knob("note_gap", "prompts.merge", None, EPISODES, "", ("write", "read"), part="write prompt",
         meaning="tells the assistant which facts of an episode to note: those that known ones do not let it expect"),
    Knob("reply_context", "prompts.reply", None, CONTEXT, "", ("read", "utilisation"), part="reply prompt",
         meaning="is the system prompt that shows the assistant its memories of the user"),
    Knob("reply_external", "prompts.reply", None, EXTERNAL, "", ("read", "utilisation"), part="reply prompt",
         meaning="is the system prompt that shows the assistant the memories of the user that were found"),
    Knob("reply_summary", "prompts.reply", None, SUMMARY, "", ("read", "utilisation"), part="reply prompt",
         meaning="is the system prompt that shows the assistant the summary of what is no longer in view"),
)  # fmt: skip
"""Rows stand in the order of sampling, and below the rows that their conditions name."""

OF_MEMORIES = {
    "links": Knob("links", "knobs.links", Range((0, 8), least=0), EXTERNAL & LINKING, "memories", ("read",),
         default=1, named=True,
         meaning="linked memories that come back with each memory that is found"),
    "neighbours": Knob("neighbours", "knobs.neighbours", Range((1, 16)), LOOKING, "memories", ("write",),
         default=10, named=True,
         meaning="known memories that are in view where new ones are written, linked or settled"),
    "episodes": Knob("episodes", "knobs.episodes", Range((0, 20), least=0), EXTERNAL & EPISODES, "memories", ("read",),
         part="retrieval", default=10, named=True, meaning="episodes that come back besides the facts"),
    "core_tokens": Knob("core_tokens", "knobs.core_tokens", Range((64, 512), least=0), CORE, "tokens",
         ("write", "read"), default=256, named=True,
         meaning="most that the core takes, all of which is shown; the rest is in an archive"),
}  # fmt: skip
"""The knobs of memories that ship besides the built-in one, by name; the condition of each names those memories."""
REGISTERED: Registry[Knob] = Registry("knob", "mnemotune.knobs", OF_MEMORIES)
"""The knobs of other memories and packages, by name."""


def every_knob() -> tuple[Knob, ...]:
    """Return the knobs that ship, and after them those of other packages."""
    return (*KNOBS, *map(REGISTERED.get, REGISTERED.names))


def limits_under(context_tokens: int) -> dict[str, tuple[int, int]]:
    """Return the limits that a budget sets to the search, by the knobs' keys: beyond them nothing more would fit."""
    limits: dict[str, tuple[int, int]] = {}
    for knob in every_knob():
        if isinstance(knob.domain, Range) and knob.tokens:
            low = knob.domain.limits[0]
            limits[knob.limited_by] = low, max(low, knob.usual, context_tokens // knob.tokens)
    return limits


def _limited(knob: Knob, limits: tuple[Any, ...] | None = None) -> Knob:
    """Return a knob as it is searched within limits."""
    if knob.domain is None or limits is None:
        return replace(knob, domain=None) if knob.named else knob
    return replace(knob, domain=replace(knob.domain, limits=limits))


def prompt_slots() -> tuple[str, ...]:
    """Return the slots of all prompts, each once."""
    return tuple(dict.fromkeys(knob.slot for knob in KNOBS if knob.slot))


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by path."""
    values_by_path: dict[str, Any] = {}
    for name, value in values.items():
        values_by_path |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return values_by_path


def nested(values: Values) -> dict[str, Any]:
    """Return values by path as a policy's file has them."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *outer, last = path.split(".")
        reduce(lambda inner, name: inner.setdefault(name, {}), outer, tree)[last] = value
    return tree


def effective(values: Values, knobs: Sequence[Knob]) -> dict[str, Any]:
    """Return the values of the knobs that have an effect in a policy, by name, in the order of the table."""
    point: dict[str, Any] = {}
    for knob in knobs:
        value = knob.read(values)
        if knob.has_effect(point, value):
            point[knob.name] = value
    return point


def problems(values: Values, knobs: Sequence[Knob] = KNOBS) -> Iterator[str]:
    """Yield what a policy lacks, and what it says without effect.

    Paths that several samplers' knobs share are left out: their conditions are a matter of the space, not of sense.
    """
    point, named = effective(values, knobs), {knob.name: knob for knob in knobs}
    drawn = [knob.path for knob in knobs if knob.domain is not None]
    for path, knob in {knob.path: knob for knob in knobs}.items():
        value = values.get(path)
        if drawn.count(path) > 1:
            continue
        if any(other.name in point for other in knobs if other.path == path):
            if value is None and knob.default is None and knob.domain is not None and knob.when is not None:
                yield f"{path}: needed {knob.when.words}"
        elif value not in (None, knob.default):
            causes = [_cause(other, point, named) for other in knobs if other.path == path]
            if all(point[cause.name] is not None for cause in causes):
                yield f"{path}: has no effect with {causes[-1].path}: {point[causes[-1].name]}; leave it out"


def _cause(knob: Knob, point: Point, named: Mapping[str, Knob]) -> Knob:
    """Return the knob with an effect, above one without, because of which that has none."""
    while knob.name not in point and knob.when is not None and (unmet := knob.when.unmet(point)) is not None:
        knob = named[unmet.knob]
    return knob


class Valued(Protocol):
    """What stands in the space: a memory policy."""

    @property
    def values(self) -> Values:
        """What it says, by path."""


@dataclass(frozen=True, slots=True)
class Space:
    """Where a search looks: all knobs, each with the domain that is left to it."""

    knobs: tuple[Knob, ...] = field(default_factory=lambda: tuple(map(_limited, every_knob())))
    backend: str = BUILTIN
    """The memory of all its policies, where no limit names any."""

    @classmethod
    def within(cls, limits: Any) -> Space:
        """Return the space within a mapping of limits, by the knobs' keys: choices, or a lower and an upper bound.

        Some knobs are searched only where a limit names them. Raises pydantic's ValidationError naming the key.
        """
        if isinstance(limits, Space):
            return limits
        fields: dict[str, Any] = {k.limited_by: (k.domain.annotation, None) for k in every_knob() if k.domain}
        model: type[BaseModel] = create_model("Space", __config__=ConfigDict(extra="forbid"), **fields)
        given = model.model_validate(limits).model_dump(exclude_unset=True)
        return cls(tuple(_limited(knob, given.get(knob.limited_by)) for knob in every_knob()))

    @property
    def limits(self) -> dict[str, tuple[Any, ...]]:
        """The limits that make this space, by key."""
        return {knob.limited_by: domain.limits for knob, domain in self.searched}

    @property
    def searched(self) -> list[tuple[Knob, Choices | Range]]:
        """The knobs that samplers draw, with their domains."""
        return [(knob, knob.domain) for knob in self.knobs if knob.domain is not None]

    def knob(self, name: str) -> Knob:
        """Return the knob of a name."""
        return next(knob for knob in self.knobs if knob.name == name)

    def point_of(self, policy: Valued) -> dict[str, Any] | None:
        """Return where a policy stands; None when it stands outside."""
        every = effective(policy.values, [knob for knob in self.knobs if not knob.slot])
        point = {knob.name: every[knob.name] for knob, _ in self.searched if knob.name in every}
        inside = all(point[knob.name] in domain for knob, domain in self.searched if knob.name in point)
        return point if inside else None

    @property
    def memories(self) -> tuple[str, ...]:
        """The memories that its policies may have with ``write.mode: facts``, by name."""
        return self.limits.get("backends", (self.backend,))

    @property
    def idle(self) -> list[Knob]:
        """The knobs named by its limits that have no effect anywhere within the others."""
        choices = {knob.name: domain.limits for knob, domain in self.searched} | {"backend": self.memories}
        named = [(knob, knob.when.parts) for knob, _ in self.searched if knob.named and knob.when is not None]

        def may_hold(part: When) -> bool:
            return part.knob not in choices or any(map(part.allows, choices[part.knob]))

        return [knob for knob, parts in named if not all(map(may_hold, parts))]

    def drawn(self, draw: Callable[[Knob, Choices | Range], Any]) -> dict[str, Any]:
        """Return a point whose values are drawn, in the order of the table, where they have an effect."""
        point: dict[str, Any] = {}
        given = {} if self.knob("backend").domain else {"backend": self.backend}
        for knob, domain in self.searched:
            if knob.has_effect(given | point):
                point[knob.name] = draw(knob, domain)
        return point

    def values_at(self, point: Point, parent: Values | None = None) -> dict[str, Any]:
        """Return what a policy at a point says, by path; what is not searched is the parent's, its prompts left out.

        A memory that is not searched is the space's where the parent names none.
        """
        given = dict(parent or {})
        given["backend"] = given.get("backend") or self.backend
        every: dict[str, Any] = {}
        held: dict[str, Any] = {}
        for knob in self.knobs:
            value = knob.read(given) if knob.domain is None else point.get(knob.name)
            if not knob.slot and knob.has_effect(every, value):
                every[knob.name] = value
                held |= {} if knob.hold(value) in (None, knob.default) else {knob.path: knob.hold(value)}
        return held

    def coordinates(self, point: Point) -> list[float]:
        """Return a point's place for measuring distances; each knob counts as much."""
        return [x for knob, domain in self.searched for x in domain.coordinates(point.get(knob.name))]


def at_bounds(policy: Valued, space: Space) -> dict[str, int]:
    """Return the numbers of a policy that lie at a searched bound beyond which there is more, by key."""
    point = effective(policy.values, space.knobs)
    return {
        knob.limited_by: point[knob.name]
        for knob, domain in space.searched
        if isinstance(domain, Range) and point.get(knob.name) in domain.open_limits
    }


def markdown_table(knobs: Sequence[Knob]) -> str:
    """Return the table of knobs, as the docs show it."""
    rows = [("knob", "in a policy", "searched", "unit", "has an effect", "mends", "what it is or does"), ("---",) * 7]
    for knob in knobs:
        key = f" (`{knob.key}`)" if knob.key not in {"", knob.name} else ""
        searched, words = str(knob.domain or "-"), knob.when.words if knob.when else "always"
        searched += f"; with a budget, to its tokens / {knob.tokens}" if knob.tokens else ""
        searched += " where a limit names it" if knob.named and isinstance(knob.domain, Range) else ""
        mends = ", ".join(knob.mends) or "-"
        rows += [(f"`{knob.name}`{key}", f"`{knob.path}`", searched, knob.unit or "-", words, mends, knob.meaning)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
