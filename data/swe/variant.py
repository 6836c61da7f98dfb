"""A variant of a bug: its names and numbers, its code, what tells how to repair it, and the repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .bug import Bug
from .clues import STACKS, Clue, Stack, helper_clue, report_clue, section_clue, value_clue
from .code import modules_of
from .words import Draw

CUSTOMERS, SERVICES = 9, 14
"""Things of one kind that the notes, the settings and the logs speak of; the first is the bug's."""
SET_SERVICES = 4
"""Services that have settings."""
RENEWED = 0.5
"""Share of the variants in which the notes tell another value than the issue, because it has changed."""
_VERBS = ("reckon", "settle", "derive", "gather", "lay_out", "measure", "arrange", "work_out", "resolve", "compose")


@dataclass(frozen=True, slots=True)
class Edit:
    """A call of tools/edit.py; a clue among its words is a slot."""

    words: tuple[str | Clue, ...]

    @property
    def right(self) -> tuple[str, ...]:
        """The words with the right values."""
        return tuple(word.value if isinstance(word, Clue) else word for word in self.words)

    @property
    def clues(self) -> tuple[Clue, ...]:
        """Its slots."""
        return tuple(word for word in self.words if isinstance(word, Clue))


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of a bug."""

    draw: Draw
    stack: Stack
    title: str
    intro: str
    paths: Mapping[str, str]
    """Where the files stand: core, near, base, cases, settings, notes, log."""
    modules: Mapping[str, str]
    """The text of core, near and cases."""
    settings: Mapping[str, Mapping[str, object]]
    """As they are with the bug, by section."""
    edits: tuple[Edit, ...]
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @property
    def clues(self) -> list[Clue]:
        """What the repair needs."""
        return [clue for edit in self.edits for clue in edit.clues]


def variant_of(bug: Bug, seed: str) -> Variant:
    """Draw a variant of a bug."""
    draw = Draw(seed)
    paths = _paths(draw)
    stack = draw.one_of(*STACKS)
    who, codes, services = draw.proper(CUSTOMERS), draw.codes(CUSTOMERS), draw.words(SERVICES)
    first, second = bug.first.drawn(draw, 2 * CUSTOMERS + 1), bug.second.drawn(draw, 2 * SERVICES + SET_SERVICES)
    names = ("fn", "entry", "middle", "extra", "helper", *(name for name in bug.helpers if name != "helper"))
    for name in names:
        draw.set(**{name: f"{draw.one_of(*_VERBS)}_{draw.word()}"})
    draw.set(section=codes[0], service=services[0], part=draw.one_of("part", "section", "shelf", "book"))
    draw.set(k1=draw.line(bug.first.key), k2=draw.line(bug.second.key))
    draw.set(what=draw.line(bug.what))
    for number in range(1, 6):
        draw.set(**{f"t{number}": f"test_{draw.word()}_{draw.word()}"})
    cases: Any = bug.cases
    modules, fails = modules_of(draw, bug, cases(draw, first[0], second[0]))
    key1, key2 = draw.names["k1"], draw.names["k2"]
    sections = {code: {key1: value} for code, value in zip(codes, first[CUSTOMERS:-1], strict=True)}
    served = zip(services[:SET_SERVICES], second[2 * SERVICES :], strict=True)
    settings = sections | {service: {key2: value} for service, value in served}
    old = first[-1] if draw.rng.random() < RENEWED else None
    value = value_clue(draw, key1, draw.names["what"], who=who, values=first[:CUSTOMERS], old=old)
    section = section_clue(draw, who=who, codes=codes)
    report = report_clue(draw, key2, who=services, values=second[:SERVICES], old=second[SERVICES : 2 * SERVICES])
    place = {"file": paths["core"], "function": draw.names["fn"]}
    swap = (stack.clue(draw, "file", fails[0], **place), stack.clue(draw, "function", fails[0], **place))
    new: str | Clue = draw.line(bug.new)
    if bug.helpers:
        helpers = [draw.names[name] for name in bug.helpers]
        new = helper_clue(draw, names=helpers, what=[draw.line(what) for what in bug.helpers.values()])
    edits = (
        Edit(("swap", *swap, draw.line(bug.old), new)),
        Edit(("set", paths["settings"], section, key1, value)),
        Edit(("set", paths["settings"], services[0], key2, report)),
    )
    title, intro = draw.line(bug.title), draw.line(bug.intro)
    order = dict(draw.mixed(list(settings.items())))
    passes = (draw.names["t4"], draw.names["t5"])
    return Variant(draw, stack, title, intro, paths, modules, order, edits, fails, passes)


def _paths(draw: Draw) -> dict[str, str]:
    package = draw.word("pkg")
    for name in ("core", "near", "base", "notes", "log", "cfg"):
        draw.word(name)
    draw.set(cases=f"{draw.one_of('checks', 'cases', 'trials')}_{draw.word()}")
    names = draw.names
    return {
        **{name: f"{package}/{names[name]}.py" for name in ("core", "near", "base")},
        "cases": f"tests/{names['cases']}.py",
        "settings": f"settings/{names['cfg']}.cfg",
        "notes": f"docs/{names['notes']}.md",
        "log": f"logs/{names['log']}.log",
    }
