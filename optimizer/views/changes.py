"""What one policy has that another has not: numbers, structure, and prompts word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, Literal

from ...policies.knob import Knob
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates
from ...policies.space import effective, every_knob

NOT_USED = "-"
REWRITTEN = 0.4
"""Share of words in common below which two texts are shown one after the other."""
SHARED = 3
"""Words in a row that two texts share at least where they are shown as the same."""
CONTEXT = 60
"""Characters that are kept on each side of a change where a text is shortened."""

Kind = Literal["same", "added", "removed"]
Piece = tuple[Kind, str]


@dataclass(frozen=True, slots=True)
class KnobChange:
    """A knob in two policies."""

    knob: Knob
    before: str
    """``NOT_USED`` where it has no effect; so is ``after``."""
    after: str

    @property
    def changed(self) -> bool:
        """Whether they differ."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class PromptChange:
    """How a prompt differs from the text that it started from."""

    slot: str
    origin: str
    """Whose text it started from."""
    pieces: tuple[Piece, ...]
    """The new text with what it has lost, in order."""

    @property
    def changed(self) -> bool:
        """Whether it differs at all."""
        return any(kind != "same" for kind, _ in self.pieces)

    @property
    def shortened(self) -> tuple[Piece, ...]:
        """The pieces without what lies far from every change."""
        last = len(self.pieces) - 1
        return tuple(
            (kind, text if kind != "same" else _shortened(text, first=i == 0, last=i == last))
            for i, (kind, text) in enumerate(self.pieces)
        )


def compare_knobs(before: MemoryPolicy, after: MemoryPolicy) -> list[KnobChange]:
    """Return the numbers and the structure that have an effect in one of two policies.

    What neither of them sets is left out.
    """
    knobs = every_knob()
    points = [effective(policy.values, knobs) for policy in (before, after)]
    return [
        KnobChange(knob, *(_written(point, knob) for point in points))
        for knob in knobs
        if not knob.slot and any(knob.name in point for point in points) and not _left_alone(knob, points)
    ]


def compare_prompts(
    before: MemoryPolicy, after: MemoryPolicy, templates: Templates, *, owner: str
) -> list[PromptChange]:
    """Compare each prompt of a policy with the text that it started from.

    It is that of ``before``, whose ``owner`` is named, where both use the same kind, and the template's elsewhere.
    """
    changes = []
    for slot, text in after.prompts.model_dump().items():
        if text is not None and slot in after.prompt_kinds:
            kind, start, origin = after.prompt_kinds[slot], getattr(before.prompts, slot), owner
            if start is None or before.prompt_kinds.get(slot) != kind:
                start, origin = templates.starting(kind), f"the text that {after.write.mode} starts from"
            changes.append(PromptChange(slot, origin, tuple(compare_texts(start, text))))
    return changes


def compare_texts(before: str, after: str) -> Iterator[Piece]:
    """Yield what two texts share and where they differ, by whole words; all of both where they share little."""
    if before == after:
        yield "same", after
        return
    old, new = (re.findall(r"\S+\s*|\s+", text) for text in (before, after))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < REWRITTEN:
        yield "removed", f"{before}\n"
        yield "added", after
        return
    for same, group in groupby(matcher.get_opcodes(), lambda step: step[0] == "equal" and step[2] - step[1] >= SHARED):
        steps = list(group)
        pieces = old[steps[0][1] : steps[-1][2]], new[steps[0][3] : steps[-1][4]]
        kinds: tuple[Kind, Kind] = ("same", "same") if same else ("removed", "added")
        yield from ((kind, "".join(words)) for kind, words in list(zip(kinds, pieces, strict=True))[same:] if words)


def _shortened(text: str, *, first: bool, last: bool) -> str:
    """Return a text without its middle, or without the side on which nothing follows."""
    head, tail = "" if first else text[:CONTEXT], "" if last else text[-CONTEXT:]
    return text if len(head) + len(tail) + 3 >= len(text) else f"{head} … {tail}"


def _written(point: dict[str, Any], knob: Knob) -> str:
    value = point.get(knob.name)
    if value is None:
        return NOT_USED
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"{text} {knob.unit}" if knob.unit and isinstance(value, int) else text


def _left_alone(knob: Knob, points: list[dict[str, Any]]) -> bool:
    """Tell whether neither policy says anything of a knob that is searched only where a config names it."""
    values = [point.get(knob.name) for point in points]
    return all(value is None or (knob.named and value == knob.default) for value in values)
