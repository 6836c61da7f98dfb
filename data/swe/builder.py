"""Make a task of a variant: the plan with its slots, and the reference repair."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping, Sequence

from ..task import Check
from .clues import Clue
from .layout import EDITOR, TEST_COMMAND, Layout
from .parts.edit import changed, swapped
from .task import Slot, Step, SweTask
from .variant import Edit, Variant


def build(variant: Variant, *, name: str, group: str) -> SweTask:
    """Return the task of a variant."""
    layout = Layout(variant)
    files = layout.files
    steps, facts = layout.evidence()
    checks = dict[str, Check]()
    for edit in variant.draw.mixed(variant.edits):
        stage = steps[-1].stage + 1
        for clue in edit.clues:
            checks[clue.name] = Check(clue.name, clue.name, stage, (clue.name,), 0.0, clue.question)
        steps.append(_step(edit, stage))
        steps += layout.between(stage)
    steps.append(Step(steps[-1].stage, TEST_COMMAND))
    return SweTask(
        id=name,
        group=group,
        stages=steps[-1].stage + 1,
        problem=layout.problem,
        files=files,
        patch=patch_of(files, repaired(files, variant.edits)),
        test_command=TEST_COMMAND,
        fail_to_pass=variant.fail_to_pass,
        pass_to_pass=variant.pass_to_pass,
        steps=tuple(steps),
        facts=facts,
        checks=checks,
    )


def repaired(files: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """Return files after edits with the right values. Raises LookupError where an edit does not fit."""
    after = dict(files)
    for edit in edits:
        kind, path, *words = edit.right
        after[path] = (swapped if kind == "swap" else changed)(after[path], *words)
    return after


def patch_of(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the unified diff between two states of files."""
    lines = list[str]()
    for path in sorted(after):
        old, new = (text.splitlines(keepends=True) for text in (before[path], after[path]))
        lines += difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(lines)


def _step(edit: Edit, stage: int) -> Step:
    words = [f"{{{word.name}}}" if isinstance(word, Clue) else shlex.quote(word) for word in edit.words]
    slots = tuple(Slot(clue.name, clue.name) for clue in edit.clues)
    right = {clue.name: clue.value for clue in edit.clues}
    return Step(stage, " ".join([f"python {EDITOR}", *words]), right, slots)
