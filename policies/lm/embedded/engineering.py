"""The model as a prompt engineer: it reads a few failures and makes a few edits."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...text import sentences, stem, stems
from .reading import about_self

MOST_FAILURES = 4
"""Failures that the model reads."""
MOST_EDITS = 3
"""Changes that it makes to a prompt in one go."""
WORDS_PER_KIND = 6

IN_FULL = "Write down each statement in full, with every detail."
OWN_ONLY = "Note only what is true of the users themselves, not other people's doings."
REPLACE = "A new fact about the same matter replaces the old one."
NEWEST = "Rely on what the user said most recently; it replaces what was said before."
OWN_WORDS = "Rely on what the user said of themselves, not on talk about other people."

_SECTION = re.compile(
    r"^\[\[ ## (\w+) ## \]\]\n(.*?)(?=^\[\[ ## |\nRespond with a JSON object in the following order|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SAID = re.compile(r"^The user said[^:]*: (.+)$", re.MULTILINE)
_HELD = re.compile(r"^Memory held:\s*(.*?)(?=^(?!- )\S[^\n]*: |\Z)", re.MULTILINE | re.DOTALL)
_QUESTION = re.compile(r"^Question: (.+)$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
_BULLET_LINE = re.compile(r"^\s*(?:[-*\u2022]|\d{1,2}[.)])\s+.+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EngineeringTask:
    """A prompt to improve and the evidence against it."""

    prompt: str
    failures: tuple[str, ...]


def find_engineering_task(text: str) -> EngineeringTask | None:
    """Find the sections ``current_prompt`` and ``failures``; None when the message has no such sections."""
    sections = {match[1]: match[2].strip() for match in _SECTION.finditer(text)}
    if not {"current_prompt", "failures"} <= sections.keys():
        return None
    try:
        failures = json.loads(sections["failures"])
    except (ValueError, RecursionError):
        failures = [sections["failures"]]
    listed = failures if isinstance(failures, list) else [failures]
    return EngineeringTask(sections["current_prompt"], tuple(map(str, listed)))


def improve_prompt(task: EngineeringTask) -> str:
    """Return a JSON object with an analysis of the failures and the edited prompt."""
    read = task.failures[:MOST_FAILURES]
    edits = [edit for edit in dict.fromkeys(_edits(task.prompt, read)) if edit not in task.prompt][:MOST_EDITS]
    prompt = task.prompt
    for edit in edits:
        prompt = _insert(prompt, edit)
    analysis = "Added: " + " | ".join(edits) if edits else "Nothing to add."
    return json.dumps({"analysis": analysis, "improved_prompt": prompt}, ensure_ascii=False)


def _edits(prompt: str, failures: Sequence[str]) -> Iterator[str]:
    general = Counter(edit for failure in failures for edit in _general_edits(prompt, failure))
    for edit, _ in general.most_common(MOST_EDITS - 1):
        yield edit
    if "{conversation}" in prompt:
        for failure in failures:
            kind = _missing_kind(prompt, failure)
            if kind:
                yield f"- {kind}"


def _general_edits(prompt: str, failure: str) -> Iterator[str]:
    said = [text for line in _SAID.findall(failure) for text in sentences(line.strip('"'))]
    held = [
        line[2:].strip() for block in _HELD.findall(failure) for line in block.splitlines() if line.startswith("- ")
    ]
    if "{conversation}" in prompt:
        if any(_is_cut_short(text, held) for text in said):
            yield IN_FULL
        if any(line and not about_self(line.split(": ", 1)[-1]) for line in held):
            yield OWN_ONLY
    elif "{facts}" in prompt:
        yield REPLACE
    elif "{choices}" in prompt:
        yield NEWEST
        yield OWN_WORDS


def _is_cut_short(said: str, held: Sequence[str]) -> bool:
    start = " ".join(said.split()[:5])
    return any(start in line and said not in line for line in held)


def _missing_kind(prompt: str, failure: str) -> str | None:
    """Name the kind of information that the failure was about, in the user's words; None when it is asked for."""
    asked = frozenset(stems(" ".join(_QUESTION.findall(failure))))
    own = [text for line in _SAID.findall(failure) for text in sentences(line.strip('"')) if about_self(text)]
    words = [word.lower() for text in own for word in _WORD.findall(text) if stems(word)]
    present = frozenset(stem_ for line in _BULLET_LINE.findall(prompt) for stem_ in stems(line))
    fresh = [word for word in dict.fromkeys(words) if stem(word) not in present]
    if len(fresh) < 3:
        return None
    ranked = sorted(fresh, key=lambda word: (stem(word) not in asked, -len(word), word))
    return ", ".join(ranked[:WORDS_PER_KIND])


def _insert(prompt: str, edit: str) -> str:
    """Put a bullet after the last bullet, and a sentence or a first bullet before the first line with a slot."""
    lines = prompt.split("\n")
    bullets = [i for i, line in enumerate(lines) if _BULLET_LINE.match(line)]
    slots = [i for i, line in enumerate(lines) if re.search(r"\{\w+\}", line)]
    if edit.startswith("- ") and bullets:
        place = bullets[-1] + 1
    else:
        place = _paragraph_start(lines, slots[0]) if slots else len(lines)
    return "\n".join([*lines[:place], edit, *lines[place:]])


def _paragraph_start(lines: Sequence[str], line: int) -> int:
    while line > 0 and lines[line - 1].strip():
        line -= 1
    return line
