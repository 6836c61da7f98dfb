"""Lay out the repository of a variant, and what the plan shows of it before the repair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from ..resources import resource
from ..task import Fact
from .clues import Clue
from .filler import events, mixed_in, paragraphs
from .task import Step
from .variant import Variant

RUNNER, EDITOR = "run_tests.py", "tools/edit.py"
TEST_COMMAND = f"python {RUNNER}"
NOTES_TOKENS, LOG_TOKENS = 640, 620
"""Of a part of the notes, and of a part of the log, that a command shows."""
LEAST_EVENTS = 200
"""Tokens of other things in a part of the log."""
SHOWN_BETWEEN = 0.4
"""Share of the edits after which other notes are shown."""
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


class Layout:
    """The texts of a repository, and the commands that show them."""

    def __init__(self, variant: Variant) -> None:
        """Draw who tells what: the issue, or the notes."""
        self._variant, self._draw = variant, variant.draw
        said = self._draw.mixed([clue for clue in variant.clues if clue.source == "said"])
        lasting, self._renewed = [c for c in said if not c.old], [c for c in said if c.old]
        self._in_issue, self._in_notes = lasting[:1], lasting[1:] + self._renewed
        self._logged = [clue for clue in variant.clues if clue.source == "log"]
        self.problem = self._issue()
        self._notes = [self._noted(self._in_notes), self._noted([]), self._noted([])]
        self._unshown = [2]
        self._log = self._log_parts()
        self.files = self._files()

    def evidence(self) -> tuple[list[Step], dict[str, Fact]]:
        """Return the steps that show the evidence and then something else, and the facts."""
        draw, log = self._draw, self._variant.paths["log"]
        logs = [(end, f"{end} -n {len(part)} {log}") for end, part in zip(("head", "tail"), self._log, strict=True)]
        notes = [("notes", self._shown_notes(0))]
        begin = draw.mixed([("settings", f"cat {self._variant.paths['settings']}"), ("tests", TEST_COMMAND)])
        order = [*begin, *draw.one_of([*notes, *logs], [*logs, *notes]), ("after", self._shown_notes(1))]
        joined = draw.one_of(set[str](), {begin[1][0]}, {"notes"}, {begin[1][0], "after"})
        steps, told = list[Step](), dict[str, int]()
        for what, command in order:
            stage = steps[-1].stage + int(what not in joined) if steps else 0
            steps.append(Step(stage, command))
            told[what] = stage
        return steps, self._facts(told)

    def between(self, stage: int) -> list[Step]:
        """Return what is shown after an edit: now and then, and once, the last part of the notes."""
        if not self._unshown or self._draw.rng.random() >= SHOWN_BETWEEN:
            return []
        return [Step(stage, self._shown_notes(self._unshown.pop()))]

    def _shown_notes(self, part: int) -> str:
        begin = sum(map(len, self._notes[:part]))
        return f"sed -n {begin + 1},{begin + len(self._notes[part])}p {self._variant.paths['notes']}"

    def _facts(self, told: dict[str, int]) -> dict[str, Fact]:
        """Return the facts, those first that are overwritten."""
        sources = (
            *((clue, 0) for clue in self._in_issue),
            *((clue, told["notes"]) for clue in self._in_notes),
            *((clue, told["tail"]) for clue in self._logged),
            *((clue, told["tests"]) for clue in self._variant.clues if clue.source == "stack"),
        )
        before = [(clue, 0, told["notes"]) for clue in self._renewed]
        before += [(clue, told["head"], told["tail"]) for clue in self._logged]
        facts = [Fact(f"{c.name} before", c.name, c.name, c.old, since, until) for c, since, until in before]
        facts += [Fact(clue.name, clue.name, clue.name, clue.line, since) for clue, since in sources]
        return {fact.id: fact for fact in facts}

    def _issue(self) -> str:
        draw = self._draw
        told = "\n".join([*(clue.old for clue in self._renewed), *(clue.line for clue in self._in_issue)])
        outdated = draw.line(draw.one_of(*OUTDATED)).format(who=draw.names["service"])
        closing = draw.line(draw.one_of(*CLOSING))
        return "\n\n".join([f"# {self._variant.title}", self._variant.intro, told, outdated, closing])

    def _noted(self, clues: Sequence[Clue]) -> list[str]:
        """Return the lines of a part of the notes."""
        told = self._draw.mixed([line for clue in clues for line in clue.among])
        size = NOTES_TOKENS - len("\n".join(told)) // 4
        return mixed_in(self._draw, told, paragraphs(self._draw, size))

    def _log_parts(self) -> list[list[str]]:
        """Return the lines of both parts of the log."""
        parts = list[list[str]]()
        for told in ([x for c in self._logged for x in c.old_among], [x for c in self._logged for x in c.among]):
            size = max(LEAST_EVENTS, LOG_TOKENS - len("\n".join(told)) // 4)
            parts.append(mixed_in(self._draw, told, events(self._draw, size)))
        return parts

    def _files(self) -> dict[str, str]:
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
            FIRST=stack.first,
            LAST=stack.last,
            STACK=stack.form,
        )
        base = _with(_part("base.py"), SETTINGS=paths["settings"], MARK=self._draw.one_of("|", ">", ":", "*"))
        files = {
            paths["core"]: variant.modules["core"],
            paths["near"]: variant.modules["near"],
            paths["base"]: base,
            paths["cases"]: variant.modules["cases"],
            paths["settings"]: "\n\n".join(settings) + "\n",
            paths["notes"]: "\n".join(line for part in self._notes for line in part) + "\n",
            paths["log"]: "\n".join(line for part in self._log for line in part) + "\n",
            RUNNER: runner,
            EDITOR: _part("edit.py"),
        }
        return dict(sorted(files.items()))


@cache
def _part(name: str) -> str:
    """Return the text of a file that every repository has."""
    return resource("data", "swe", "parts", name).read_text(encoding="utf-8")


def _with(text: str, **constants: str) -> str:
    """Return a module with other values of its constants."""
    for name, value in constants.items():
        text = re.sub(rf'^{name} = ".*"$', f'{name} = "{value}"', text, count=1, flags=re.MULTILINE)
    return text
