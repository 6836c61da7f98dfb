"""The model as a prompt engineer: it reads a few failures and changes a few lines and a number."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...text import sentences, stem, stems
from .blocks import ITEM, WORD, items_in, texts_in, value_of
from .instructions import read_instructions
from .lexicon import examples, family, kin
from .phrases import pick
from .sentences import about_self
from .strengths import strengths_of

MOST_FAILURES = 4
"""Failures that the model reads."""
MOST_EDITS = 3
"""Changes that it makes to prompts in one go."""
STARTING_SIZE = 4
"""What it makes of a number that is 0 and should be more."""
WORDS_PER_KIND = 5
"""Examples with which it names a kind of information."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Something that the model can ask for in a prompt, in several wordings of one meaning."""

    ability: str
    """What of the reader's abilities it bears on; always for the positive pole."""
    wordings: tuple[str, ...]

    def is_in(self, prompt: str) -> bool:
        """Tell whether a prompt asks for it in one of these wordings, or in others as plainly."""
        asks = strengths_of(read_instructions(prompt).prose)[self.ability] >= PLAINLY
        return asks or any(wording in prompt for wording in self.wordings)


IN_FULL = Edit(
    "length",
    (
        "Write down each statement in full, with every detail.",
        "Do not shorten what was said: copy it word for word.",
        "Leave nothing out, and keep the exact wording.",
    ),
)
OWN_ONLY = Edit(
    "own",
    (
        "Note only what is true of the users themselves, not other people's doings.",
        "Leave out what other people do; stick to what users say of themselves.",
        "Write about the user's own life, never about somebody else.",
    ),
)
SEPARATE = Edit(
    "labels",
    (
        "Give each matter a label of its own.",
        "Do not put two matters under the same label.",
        "Use a separate label for each fact.",
    ),
)
REPLACE = Edit(
    "replace",
    (
        "A new fact about the same matter replaces the old one.",
        "Do not keep an outdated fact: overwrite it with the new one.",
        "The newer of two facts supersedes the earlier one.",
    ),
)
NEWEST = Edit(
    "newest",
    (
        "Rely on what the user said most recently; it replaces what was said before.",
        "Where statements differ, trust the latest one.",
        "Prefer recent statements over older ones.",
    ),
)
OWN_WORDS = Edit(
    "own",
    (
        "Rely on what the user said of themselves, not on talk about other people.",
        "Go by the user's own account, and ignore what is said of other people.",
        "What other people do is irrelevant: the user's own situation counts.",
    ),
)
PLAINLY = 0.9
"""Strength from which on a prompt asks for something so plainly that saying it again adds nothing."""

_SECTION = re.compile(
    r"^\[\[ ## (\w+) ## \]\]\n(.*?)(?=^\[\[ ## |\nRespond with a JSON object in the following order|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SAID = re.compile(r"^The user said[^:]*: (.+)$", re.MULTILINE)
_HELD = re.compile(r"^Memory held:\s*(.*?)(?=^(?!- )\S[^\n]*: |\Z)", re.MULTILINE | re.DOTALL)
_QUESTION = re.compile(r"^Question: (.+)$", re.MULTILINE)
_BOUNDS = re.compile(r"(\d{1,9}) \((\d{1,9}) to (\d{1,9})\)")


@dataclass(frozen=True, slots=True)
class EngineeringTask:
    """Prompts and numbers to improve, and the evidence against them."""

    prompts: Mapping[str, str]
    """By name."""
    numbers: Mapping[str, str]
    """By name, each as ``VALUE (LOW to HIGH)`` or ``VALUE (ONE or OTHER)``, and what it means."""
    failures: tuple[str, ...]


def find_engineering_task(text: str) -> EngineeringTask | None:
    """Find the sections ``current_prompts`` and ``failures``; None when the message has no such sections."""
    if "current_prompts" not in text:
        return None
    sections = {match[1]: match[2].strip() for match in _SECTION.finditer(text)}
    if not {"current_prompts", "failures"} <= sections.keys():
        return None
    prompts, numbers = (texts_in(value_of(sections.get(name, ""))) for name in ("current_prompts", "current_numbers"))
    failures = value_of(sections["failures"])
    listed = failures if isinstance(failures, list) else [sections["failures"]]
    return EngineeringTask(prompts, numbers, tuple(map(str, listed)))


def improve(task: EngineeringTask) -> str:
    """Return a JSON object with an analysis of the failures, the edited prompts and the changed numbers."""
    read = task.failures[:MOST_FAILURES]
    prompts = dict(task.prompts)
    edits: list[str] = []
    for name, prompt in task.prompts.items():
        for edit in dict.fromkeys(_edits(prompt, read)):
            if edit not in prompt and len(edits) < MOST_EDITS:
                prompts[name] = _insert(prompts[name], edit)
                edits.append(edit)
    numbers = _changed_number(task.numbers, read)
    changes = [*edits, *(f"{name} {value}" for name, value in numbers.items())]
    reply = {
        "analysis": "Added: " + " | ".join(changes) if changes else "Nothing to add.",
        "improved_prompts": {name: text for name, text in prompts.items() if text != task.prompts[name]},
        "improved_numbers": numbers,
    }
    return json.dumps(reply, ensure_ascii=False)


def _changed_number(numbers: Mapping[str, str], failures: Sequence[str]) -> dict[str, int | str]:
    """Change the one number that most of the failures speak for."""
    wishes = Counter(wish for failure in failures for wish in _wishes(numbers, failure))
    return dict([wishes.most_common(1)[0][0]]) if wishes else {}


def _wishes(numbers: Mapping[str, str], failure: str) -> Iterator[tuple[str, int | str]]:
    """Yield the changes of numbers that one failure speaks for, each as a name and a value."""
    said, held = _said(failure), _held(failure)
    kept = any(line and (line in text or text in line) for text in said for line in held)
    wanted = [("top_k", 1.5)] if kept else [("buffer_size", 2.0), ("update_every", 0.5)]
    for name, factor in wanted:
        bounds = _BOUNDS.match(numbers.get(name, ""))
        if bounds is not None:
            value, low, high = map(int, bounds.groups())
            changed = max(low, min(high, round(value * factor) if value else STARTING_SIZE))
            if changed != value:
                yield name, changed
    if any(map(_is_of_others, held)) and numbers.get("roles", "").startswith("both"):
        yield "roles", "user"


def _edits(prompt: str, failures: Sequence[str]) -> Iterator[str]:
    """Yield the sentences to add, in a wording that hangs on the failures: another time it is another one."""
    general = Counter(edit for failure in failures for edit in _general_edits(prompt, failure))
    fresh = [edit for edit, _ in general.most_common() if not edit.is_in(prompt)]
    yield from (pick(edit.wordings, *failures) for edit in fresh[: MOST_EDITS - 1])
    if "{conversation}" in prompt:
        yield from (f"- {kind}" for kind in _missing_kinds(prompt, failures))


def _general_edits(prompt: str, failure: str) -> Iterator[Edit]:
    said, held = _said(failure), _held(failure)
    if "{conversation}" in prompt:
        if any(_is_cut_short(text, held) for text in said):
            yield IN_FULL
        if any(map(_is_of_others, held)):
            yield OWN_ONLY
        if "{memories}" in prompt and any(_is_displaced(text, held) for text in said):
            yield SEPARATE
    elif "{facts}" in prompt:
        yield REPLACE
    else:
        yield NEWEST
        yield OWN_WORDS


def _said(failure: str) -> list[str]:
    return [text for line in _SAID.findall(failure) for text in sentences(line.strip('"'))]


def _held(failure: str) -> list[str]:
    lines = [line for block in _HELD.findall(failure) for line in block.splitlines()]
    return [line[2:].strip() for line in lines if line.startswith("- ")]


def _is_of_others(line: str) -> bool:
    """Tell whether a line of memory, its label aside, is no statement of the user about the user."""
    return bool(line) and not about_self(line.split(": ", 1)[-1])


def _is_cut_short(said: str, held: Sequence[str]) -> bool:
    start = " ".join(said.split()[:5])
    return any(start in line and said not in line for line in held)


def _is_displaced(said: str, held: Sequence[str]) -> bool:
    """Tell whether the label that fits what was said holds something else."""
    words = frozenset(stems(said))
    labelled = [line.split(": ", 1) for line in held if ": " in line]
    return any(words & frozenset(stems(label)) and text not in said and said not in text for label, text in labelled)


def _missing_kinds(prompt: str, failures: Sequence[str]) -> Iterator[str]:
    """Name the kinds of information that failures were about and the prompt does not ask for, frequent ones first."""
    own = [text for failure in failures for text in _said(failure) if about_self(text)]
    present = _families(" ".join(items_in(prompt)))
    missing = Counter(name for text in own for name in _families(text) - present)
    for name, _ in sorted(missing.items(), key=lambda item: (-item[1], item[0])):
        words = [word.lower() for text in own for word in WORD.findall(text) if name in _families(word)]
        yield f"{name}: {', '.join(list(dict.fromkeys([*words, *examples(name)]))[:WORDS_PER_KIND])}"
    if not missing:
        yield from _in_the_users_words(prompt, failures, own)


def _families(text: str) -> set[str]:
    return {family(group) for group in kin(text)}


def _in_the_users_words(prompt: str, failures: Sequence[str], own: Sequence[str]) -> Iterator[str]:
    questions = [line for failure in failures for line in _QUESTION.findall(failure)]
    wanted = frozenset(word for line in questions for word in stems(line))
    present = frozenset(word for line in items_in(prompt) for word in stems(line))
    words = [word.lower() for text in own for word in WORD.findall(text) if stems(word)]
    fresh = [word for word in dict.fromkeys(words) if stem(word) not in present]
    if len(fresh) >= 3:
        ranked = sorted(fresh, key=lambda word: (stem(word) not in wanted, -len(word), word))
        yield ", ".join(ranked[:WORDS_PER_KIND])


def _insert(prompt: str, edit: str) -> str:
    """Put a bullet after the last bullet, and a sentence or a first bullet before the first line with a slot."""
    lines = prompt.split("\n")
    bullets = [i for i, line in enumerate(lines) if ITEM.match(line)]
    slots = [i for i, line in enumerate(lines) if re.search(r"\{\w+\}", line)]
    place = slots[0] if slots else len(lines)
    if edit.startswith("- ") and bullets:
        place = bullets[-1] + 1
    elif slots:
        while place > 0 and lines[place - 1].strip():
            place -= 1
    return "\n".join([*lines[:place], edit, *lines[place:]])
