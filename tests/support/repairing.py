"""Repositories of the swe track in folders, where commands run with this Python and without a container."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mnemotune.data.swe.task import Slot, Step, SweTask

BYTES_PER_TOKEN = 4
SECONDS = 60


class Bench:
    """A folder with a task's repository."""

    def __init__(self, task: SweTask, folder: Path, *, python: str = sys.executable) -> None:
        """Write the repository into a new folder, and a ``python`` that is the given one, isolated."""
        self.task, self.root = task, folder / "repository"
        self.tools = folder / "bin"
        self.tools.mkdir(parents=True)
        program = self.tools / "python"
        program.write_text(f'#!/bin/sh\nexec "{shutil.which(python)}" -I "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        for path, text in task.files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def run(self, command: str) -> str:
        """Return what a command writes, its mistakes too."""
        environment = {"PATH": f"{self.tools}:/usr/bin:/bin", "LANG": "C"}
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        return done.stdout.decode()

    def passing(self) -> set[str]:
        """Return the names of the tests that pass."""
        return set(re.findall(r"^PASS (\w+)$", self.run(self.task.test_command), re.MULTILINE))

    def repair(self, wrong: Mapping[str, str] | None = None) -> None:
        """Do the edits of the plan, with wrong answers to some checks."""
        for step in self.task.steps:
            if step.slots:
                self.run(step.filled(right_answers(self.task) | dict(wrong or {})))


def right_answers(task: SweTask) -> dict[str, str]:
    """Return the right answers, by check."""
    return {slot.check: step.right[slot.name] for step, slot in each_slot(task)}


def each_slot(task: SweTask) -> Iterator[tuple[Step, Slot]]:
    """Yield the slots of a plan, each with its step."""
    return ((step, slot) for step in task.steps for slot in step.slots)


def observed(task: SweTask, bench: Bench) -> list[tuple[Step, str]]:
    """Follow the plan with right answers; return what each step shows, the problem before the first."""
    shown = [(step, f"$ {step.gold}\n{bench.run(step.gold)}\n") for step in task.steps]
    first, text = shown[0]
    return [(first, f"{task.problem}\n{text}"), *shown[1:]]


def newest(texts: Iterable[str], *, tokens: int) -> str:
    """Return the end of texts, of so many tokens."""
    whole = "".join(texts).encode()
    return whole[-tokens * BYTES_PER_TOKEN :].decode("utf-8", "ignore")


def stands_in(value: str, text: str) -> bool:
    """Tell whether a value stands in a text, not only as a part of a longer word."""
    return re.search(rf"(?<![\w/]){re.escape(value)}(?![\w/])", text) is not None


_KINDS = (r"\d{3}", r"[a-z]+/[a-z]+\.py", r"[a-z]+_\d\d", r"(?!test_)[a-z]+(?:_[a-z]+)+")


def like(value: str, text: str) -> list[str]:
    """Return the other values of the same kind in a text."""
    kind = next(kind for kind in _KINDS if re.fullmatch(kind, value))
    found = re.findall(rf"(?<![\w/]){kind}(?![\w/])", text)
    return [other for other in dict.fromkeys(found) if other != value]
