"""A variant of a bug: its names and numbers, its code, what tells how to repair it, and the repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .bug import Bug
from .clues import STACKS, Clue, Stack, helper_clue, report_clue, section_clue, value_clue
from .code import modules_of
from .words import Draw

CUSTOMERS, SERVICES = 9, 14
"""Things of one kind that the notes, the settings and the logs speak of; the first is the bug's."""
SET_SERVICES = 4
"""Services that have settings."""
FIRSTS, SECONDS = (110, 480), (500, 990)
"""The least and the most value of a customer, and of a service."""
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


@dataclass(frozen=True, slots=True)
class _Names:
    """What several texts of a variant speak of; of each, the first is the bug's."""

    customers: list[str]
    sections: list[str]
    """Of the settings, one for each customer."""
    services: list[str]
    firsts: list[int]
    """Values of the customers: the right ones, those in the settings, and the one that held before."""
    seconds: list[int]
    """Values of the services: the right ones, those that were reported before, and those in the settings."""


def variant_of(bug: Bug, seed: str) -> Variant:
    """Draw a variant of a bug."""
    draw = Draw(seed)
    paths = _paths(draw)
    stack = draw.one_of(*STACKS)
    names = _Names(
        customers=draw.proper(CUSTOMERS),
        sections=draw.codes(CUSTOMERS),
        services=draw.words(SERVICES),
        firsts=[_fitting(draw, bug), *draw.numbers(2 * CUSTOMERS, *FIRSTS)],
        seconds=draw.numbers(2 * SERVICES + SET_SERVICES, *SECONDS),
    )
    _name(draw, bug, names)
    modules, fails = modules_of(draw, bug, bug.cases(draw, names.firsts[0], names.seconds[0]))
    settings = _settings(draw, names)
    place = {"file": paths["core"], "function": draw.names["fn"]}
    swap = (stack.clue(draw, "file", fails[0], **place), stack.clue(draw, "function", fails[0], **place))
    value, section, report = _told(draw, names)
    edits = (
        Edit(("swap", *swap, draw.line(bug.old), _new(draw, bug))),
        Edit(("set", paths["settings"], section, draw.names["k1"], value)),
        Edit(("set", paths["settings"], names.services[0], draw.names["k2"], report)),
    )
    title, intro, passes = draw.line(bug.title), draw.line(bug.intro), (draw.names["t4"], draw.names["t5"])
    return Variant(draw, stack, title, intro, paths, modules, settings, edits, fails, passes)


def _fitting(draw: Draw, bug: Bug) -> int:
    """Return the right value of the customer."""
    while not bug.fits(value := draw.number(*FIRSTS)):
        pass
    return value


def _name(draw: Draw, bug: Bug, names: _Names) -> None:
    """Keep the names that the templates use."""
    for name in ("fn", "entry", "middle", "extra", *dict.fromkeys(("helper", *bug.helpers))):
        draw.set(**{name: f"{draw.one_of(*_VERBS)}_{draw.word()}"})
    draw.set(section=names.sections[0], service=names.services[0], part=draw.one_of("part", "section", "shelf", "book"))
    draw.set(k1=draw.line(bug.first), k2=draw.line(bug.second))
    draw.set(what=draw.line(bug.what))
    for number in range(1, 6):
        draw.set(**{f"t{number}": f"test_{draw.word()}_{draw.word()}"})


def _settings(draw: Draw, names: _Names) -> dict[str, dict[str, int]]:
    """Return the settings with the bug, in any order."""
    own = zip(names.sections, names.firsts[CUSTOMERS:-1], strict=True)
    served = zip(names.services[:SET_SERVICES], names.seconds[2 * SERVICES :], strict=True)
    key1, key2 = draw.names["k1"], draw.names["k2"]
    settings: list[tuple[str, dict[str, int]]] = [(section, {key1: value}) for section, value in own]
    return dict(draw.mixed([*settings, *((service, {key2: value}) for service, value in served)]))


def _told(draw: Draw, names: _Names) -> tuple[Clue, Clue, Clue]:
    """Return the customer's value, the customer's section, and the service's value."""
    old = names.firsts[-1] if draw.rng.random() < RENEWED else None
    what, who = draw.names["what"], names.customers
    value = value_clue(draw, draw.names["k1"], what, who=who, values=names.firsts[:CUSTOMERS], old=old)
    section = section_clue(draw, who=who, codes=names.sections)
    now, before = names.seconds[:SERVICES], names.seconds[SERVICES : 2 * SERVICES]
    return value, section, report_clue(draw, draw.names["k2"], who=names.services, values=now, old=before)


def _new(draw: Draw, bug: Bug) -> str | Clue:
    """Return what is right in the function: a text, or the function to call, which has to be remembered."""
    if not bug.helpers:
        return draw.line(bug.new)
    names = [draw.names[name] for name in bug.helpers]
    return helper_clue(draw, names=names, what=[draw.line(what) for what in bug.helpers.values()])


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
