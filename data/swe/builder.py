"""Make a task of a sketch: the repository, the plan with its slots, and the reference repair."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache

from ..resources import resource
from ..task import Check, Fact
from .clues import Clue
from .filler import events, mixed_in, paragraphs
from .parts.edit import changed, swapped
from .task import Slot, Step, SweTask
from .variant import Edit, Variant

RUNNER, EDITOR = "run_tests.py", "tools/edit.py"
TEST_COMMAND = f"python {RUNNER}"
NOTES_TOKENS, LOG_TOKENS = 700, 620
"""Of a part of the notes, and of a part of the log, that a command shows."""
OUTDATED = (
    "[[Also|Besides]], the settings are old: what {who} reports last in the log [[holds|is right]].",
    "[[And|Then]] {who} has other settings now, [[see|which stand in]] the log; [[the latest|its last report]] holds.",
    "The log [[has|knows]] newer settings of {who}, [[and they never came in|which are not in yet]].",
)
"""What the issue says of the service, whose value a log tells."""
CLOSING = (
    "[[Please|Kindly]] look [[through|into]] the [[notes|papers]] and the log; the tests show it too.",
    "The [[tests fail|run of the tests fails]] as well, and [[the log|the notes]] may [[help|tell more]].",
    "[[I can repeat it|It happens every time]], and the tests [[agree|see it too]].",
)


def build(variant: Variant, *, name: str, group: str) -> SweTask:
    """Return the task of a variant."""
    builder = _Builder(variant)
    said = variant.draw.mixed([clue for clue in variant.clues if clue.source == "said"])
    in_issue, in_notes = said[:1], said[1:]
    problem = builder.issue(in_issue)
    notes = [builder.noted(in_notes), *(builder.noted([]) for _ in range(2))]
    logged = [clue for clue in variant.clues if clue.source == "log"]
    log = builder.log(logged)
    files = builder.files(notes, log)
    steps, told = builder.shown(notes, log, files)
    since = {
        **{clue.name: 0 for clue in in_issue},
        **{clue.name: told["notes"] for clue in in_notes},
        **{clue.name: told["tail"] for clue in logged},
        **{clue.name: told["tests"] for clue in variant.clues if clue.source == "stack"},
    }
    facts, checks = dict[str, Fact](), dict[str, Check]()
    for clue in logged:
        old = Fact(f"{clue.name} before", clue.name, clue.name, clue.old, told["head"], told["tail"])
        facts[old.id] = old
    stage = steps[-1].stage
    for edit in variant.draw.mixed(variant.edits):
        stage += 1
        for clue in edit.clues:
            facts[clue.name] = Fact(clue.name, clue.name, clue.name, clue.line, since[clue.name])
            checks[clue.name] = Check(clue.name, clue.name, stage, (clue.name,), 0.0, clue.question)
        steps.append(_step(edit, stage))
    steps.append(Step(stage, TEST_COMMAND))
    return SweTask(
        id=name,
        group=group,
        stages=stage + 1,
        problem=problem,
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


class _Builder:
    """Lays out a repository, and what the plan shows of it."""

    def __init__(self, variant: Variant) -> None:
        self._variant, self._draw = variant, variant.draw

    def issue(self, clues: Sequence[Clue]) -> str:
        """Return the problem statement."""
        told = " ".join(clue.line for clue in clues)
        draw = self._draw
        outdated = draw.line(draw.one_of(*OUTDATED)).format(who=draw.names["service"])
        closing = draw.line(draw.one_of(*CLOSING))
        return "\n\n".join([f"# {self._variant.title}", self._variant.intro, told, outdated, closing])

    def noted(self, clues: Sequence[Clue]) -> list[str]:
        """Return the lines of a part of the notes."""
        told = self._draw.mixed([line for clue in clues for line in clue.among])
        size = NOTES_TOKENS - len("\n".join(told)) // 4
        return mixed_in(self._draw, told, paragraphs(self._draw, size))

    def log(self, clues: Sequence[Clue]) -> list[list[str]]:
        """Return the lines of both parts of the log."""
        parts = list[list[str]]()
        for told in (
            [line for clue in clues for line in clue.old_among],
            [line for clue in clues for line in clue.among],
        ):
            size = max(200, LOG_TOKENS - len("\n".join(told)) // 4)
            parts.append(mixed_in(self._draw, told, events(self._draw, size)))
        return parts

    def files(self, notes: Sequence[Sequence[str]], log: Sequence[Sequence[str]]) -> dict[str, str]:
        """Return the repository with the bug."""
        variant, paths = self._variant, self._variant.paths
        settings = (
            "\n".join([f"[{section}]", *(f"{key} = {value}" for key, value in values.items())])
            for section, values in variant.settings.items()
        )
        stack = variant.stack
        module = {name: path.rpartition("/")[2].removesuffix(".py") for name, path in paths.items()}
        runner = _with(
            _part("run_tests.py"),
            PACKAGE=paths["core"].partition("/")[0],
            BASE=module["base"],
            CASES=module["cases"],
            STACK=stack.form,
        ).replace('FIRST, LAST = "outermost", "innermost"', f'FIRST, LAST = "{stack.first}", "{stack.last}"')
        base = _with(_part("base.py"), SETTINGS=paths["settings"], MARK=self._draw.one_of("|", ">", ":", "*"))
        files = {
            paths["core"]: variant.modules["core"],
            paths["near"]: variant.modules["near"],
            paths["base"]: base,
            paths["cases"]: variant.modules["cases"],
            paths["settings"]: "\n\n".join(settings) + "\n",
            paths["notes"]: "\n".join(line for part in notes for line in part) + "\n",
            paths["log"]: "\n".join(line for part in log for line in part) + "\n",
            RUNNER: runner,
            EDITOR: _part("edit.py"),
        }
        return dict(sorted(files.items()))

    def shown(
        self, notes: Sequence[Sequence[str]], log: Sequence[Sequence[str]], files: Mapping[str, str]
    ) -> tuple[list[Step], dict[str, int]]:
        """Return the steps that show the evidence and then something else, and the stage of each."""
        paths, sizes = self._variant.paths, [len(part) for part in notes]
        first = f"sed -n 1,{sizes[0]}p {paths['notes']}"
        head, tail = f"head -n {len(log[0])} {paths['log']}", f"tail -n {len(log[1])} {paths['log']}"
        middle = [("notes", first), ("head", head), ("tail", tail)]
        if self._draw.rng.random() < 0.5:
            middle = [*middle[1:], middle[0]]
        after = f"sed -n {sizes[0] + 1},{sizes[0] + sizes[1]}p {paths['notes']}"
        order = [("settings", f"cat {paths['settings']}"), ("tests", TEST_COMMAND), *middle, ("after", after)]
        steps = [Step(stage, command) for stage, (_, command) in enumerate(order)]
        return steps, {what: stage for stage, (what, _) in enumerate(order)}


@cache
def _part(name: str) -> str:
    """Return the text of a file that every repository has."""
    return resource("data", "swe", "parts", name).read_text(encoding="utf-8")


def _with(text: str, **constants: str) -> str:
    """Return a module with other values of its constants."""
    for name, value in constants.items():
        text = re.sub(rf'^{name} = ".*"$', f'{name} = "{value}"', text, count=1, flags=re.MULTILINE)
    return text
