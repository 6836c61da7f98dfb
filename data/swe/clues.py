"""What tells the values that a repair needs, and how they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .words import Draw

Source = Literal["said", "log", "stack"]
"""Said in the issue or the notes; written in a log; in the stack of a failing test."""


@dataclass(frozen=True, slots=True)
class Clue:
    """A value that the repair needs, and what tells it."""

    name: str
    """Of the slot."""
    value: str
    question: str
    source: Source
    line: str
    """What tells it."""
    among: tuple[str, ...] = ()
    """That line and others of the same form, in their order."""
    old: str = ""
    """A line that told it before, with a value that does not hold any more."""
    old_among: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stack:
    """How the runner writes the calls of a failing test."""

    form: str
    first: str
    last: str

    def clue(self, draw: Draw, what: Literal["file", "function"], test: str, *, file: str, function: str) -> Clue:
        """Return the file or the function of a failing test's last call."""
        line = self.form.format(test=test, place=self.last, function=f'"{function}"', file=f'"{file}"')
        question = draw.one_of(*_OF_STACK).format(what=what, place=self.last, test=test)
        return Clue(what, file if what == "file" else function, question, "stack", line)


STACKS = (
    Stack("stack of {test}, {place} call: function={function} file={file}", "outermost", "innermost"),
    Stack("{test} has called ({place}) file={file} function={function}", "earliest", "deepest"),
    Stack("among the calls of {test} the {place} is function={function} in file={file}", "upper", "lowest"),
    Stack("{test} went down to the {place} frame function={function} file={file}", "entry", "final"),
)
_OF_STACK = (
    "Which {what} is in the {place} call of {test}?",
    "What is the {what} of the {place} call of {test}?",
    "Name the {what} that {test} reaches in its {place} call.",
)
_VALUES = (
    ("The {key} {what} by the contract with {who}: {value}", "What is the {key} {what} by the contract with {who}?"),
    ("{key} {what} that {who} has ordered: {value}", "Which {key} {what} has {who} ordered?"),
    ("Letter on the {key} {what} from {who}: {value}", "In the letter from {who}, what is the {key} {what}?"),
    ("Agreed {key} {what} for {who}: {value}", "Which {key} {what} is agreed for {who}?"),
)
_AGAIN = (
    "Corrected {key} {what} for {who}: {value}",
    "From now on the {key} {what} for {who}: {value}",
    "Changed since the issue is the {key} {what} for {who}: {value}",
)
_NOW = ("What is the {key} {what} for {who} now?", "Which {key} {what} holds for {who}?")
"""What is asked where a customer's value has changed."""
_SECTIONS = (
    ("Section with the settings for {who}: {value}", "In which section are the settings for {who}?"),
    ("Section that serves {who}: {value}", "Which section serves {who}?"),
    ("The settings of {who} have moved to the section {value}.", "To which section have the settings of {who} moved?"),
    ("Section of the settings that {who} reads: {value}", "From which section does {who} read its settings?"),
)
_HELPERS = (
    ("Function to {what}: {value}", "Which function is there to {what}?"),
    ("Whoever has to {what} calls: {value}", "What does one call who has to {what}?"),
    ("How we {what}: {value}", "With which function do we {what}?"),
    ("To be called to {what}: {value}", "Which function is called to {what}?"),
)
_LOGGED = (
    "{number} {entity} reports {key}={value} since={other}",
    "[{number}] desk={other} {entity}: {key}={value}",
    "{number} <{other}> {entity} now has {key}={value}",
    "entry {number} by {other}; {entity} {key}={value}",
)
_LATEST = (
    "What is the latest {key} of {entity}?",
    "Which {key} does {entity} have now?",
    "What {key} holds for {entity} at last?",
)


def value_clue(
    draw: Draw, key: str, what: str, *, who: Sequence[str], values: Sequence[object], old: object | None = None
) -> Clue:
    """Return a customer's value, which a sentence tells; of several, the first is the one that is asked for.

    Where there is an ``old`` value, the sentence says that it has changed.
    """
    form, question = draw.one_of(*_VALUES)
    before = "" if old is None else form.format(who=who[0], key=key, what=what, value=old)
    if before:
        form, question = draw.one_of(*_AGAIN), draw.one_of(*_NOW)
    lines = [form.format(who=w, key=key, what=what, value=v) for w, v in zip(who, values, strict=True)]
    return _said(draw, "value", values[0], question.format(who=who[0], key=key, what=what), lines, old=before)


def section_clue(draw: Draw, *, who: Sequence[str], codes: Sequence[str]) -> Clue:
    """Return a customer's section of the settings, which a sentence tells."""
    form, question = draw.one_of(*_SECTIONS)
    lines = [form.format(who=w, value=code) for w, code in zip(who, codes, strict=True)]
    return _said(draw, "section", codes[0], question.format(who=who[0]), lines)


def helper_clue(draw: Draw, *, names: Sequence[str], what: Sequence[str]) -> Clue:
    """Return the function to call, which a sentence tells."""
    form, question = draw.one_of(*_HELPERS)
    lines = [form.format(what=w, value=name) for name, w in zip(names, what, strict=True)]
    return _said(draw, "helper", names[0], question.format(what=what[0]), lines)


def _said(draw: Draw, name: str, value: object, question: str, lines: Sequence[str], *, old: str = "") -> Clue:
    return Clue(name, str(value), question, "said", lines[0], tuple(draw.mixed(lines)), old)


def report_clue(draw: Draw, key: str, *, who: Sequence[str], values: Sequence[object], old: Sequence[object]) -> Clue:
    """Return what a service reports twice in a log, where only the later value holds."""
    form, number = draw.one_of(*_LOGGED), draw.rng.randint(1_000, 5_000)
    lines, right = list[list[str]](), list[str]()
    for told in (dict(zip(who, old, strict=True)), dict(zip(who, values, strict=True))):
        part = list[str]()
        for entity in draw.mixed(who):
            number += draw.rng.randint(1, 9)
            value = told[entity]
            line = form.format(number=number, entity=entity, key=key, value=value, other=draw.word())
            part.append(line)
            right += [line] if entity == who[0] else []
        lines.append(part)
    question = draw.one_of(*_LATEST).format(key=key.replace("_", " "), entity=who[0])
    return Clue("report", str(values[0]), question, "log", right[1], tuple(lines[1]), right[0], tuple(lines[0]))
