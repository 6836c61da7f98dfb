"""Where an agent works on a bug: a course of shell commands in a container."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import PurePosixPath

from ...data.chunks import chunks
from ...data.swe.task import Step, SweTask
from ...policies.lm import Message
from ..outside import Course, Outside, Place
from ..planned import Answers, Desk, Seen
from .container import MOST_ARGUMENT, VERSION, Image, Limits, unpacking
from .engine import Engine, base_image
from .observation import is_well, pieces

PUBLISHED = Limits(seconds=600, memory_mib=4096, processes=1024, disk_mib=256, cores=2.0)
"""Of an image from a registry, whose repositories are large."""
TESTBED = "/testbed"
"""Where published images have the repository."""
SCRIPT = "/tmp/mnemotune_tests.sh"  # noqa: S108 - in a container
"""Where the run of the tests is written, if it is too long for one command."""
PIECE = 19_000
"""Characters of it that one command writes: within quotes each may take five bytes."""

PUT_BACK = r"""name=$(printf %s "$1" | cut -f 3-)
folder=. rest=$name
while chmod u+rwx "$folder"; [ "$rest" != "${rest#*/}" ]; do
  folder=$folder/${rest%%/*} rest=${rest#*/}
  if [ -L "$folder" ] || [ ! -d "$folder" ]; then
    rm -f "$folder"
    break
  fi
done
[ -L "./$name" ] || chmod -R u+rwx "./$name"
rm -rf "./$name"
git --literal-pathspecs checkout -q "$0" -- "$name"
"""
"""Brings back a file as it is in the commit ``$0``, or removes it where none is; ``$1`` is how `git apply --numstat -z`
names it: with two numbers before it. Nothing is removed through a link."""


def course_of(task: SweTask, outside: Outside, limits: Limits | None = None) -> Course:
    """Return a course that begins with the repository as it is, keyed by all that its container depends on.

    Raises OutsideSilent where no base can be made on this machine.
    """
    image = Image(task.image, TESTBED, made=False) if task.image else base_image()
    bounds = limits or (PUBLISHED if task.image else Limits())
    known = [VERSION, asdict(image), asdict(bounds), sorted(task.files.items())]
    start = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    return Course(outside, start, partial(_opened, outside, image, task, bounds))


async def _opened(outside: Outside, image: Image, task: SweTask, limits: Limits) -> Place:
    engine = await outside.shared("docker", Engine.start)
    return await engine.open(image, task.files, limits)


def run_of_tests(task: SweTask) -> str:
    """Return the command that runs every test that counts, with the tests as they were before anybody changed them."""
    names = shlex.join([*task.fail_to_pass, *task.pass_to_pass])
    if len(names.encode()) <= MOST_ARGUMENT:
        return f"{_with_tests(task)}{task.test_command} {names}"
    by_name = shlex.join(["sh", "-c", f'{task.test_command} "$@"', "sh"])
    return f"{_with_tests(task)}printf '%s\\0' {names} | xargs -0 {by_name}"


def _with_tests(task: SweTask) -> str:
    if task.test_patch:
        base = f"base=$(git rev-parse -q --verify {shlex.quote((task.base or 'HEAD') + '^{commit}')} || echo HEAD)"
        patch = f"patch() {{ printf %s {shlex.quote(task.test_patch)}; }}"
        names = "{ patch | git apply --numstat -z; patch | git apply -R --numstat -z; } 2>/dev/null"
        back = f'xargs -0 -n 1 sh -c {shlex.quote(PUT_BACK)} "$base" 2>/dev/null'
        return f"{base}; {patch}; {names} | {back}; patch | git apply - && "
    named = shlex.split(task.test_command)
    kept = {path: text for path, text in task.files.items() if path in named or _is_test(PurePosixPath(path))}
    return f"{shlex.join(unpacking(kept))} && " if kept else ""


def _is_test(path: PurePosixPath) -> bool:
    return "tests" in path.parts[:-1] or path.name.startswith("test_")


async def rewarded(task: SweTask, course: Course) -> float:
    """Return 1 where all tests that count pass as the repository stands now, else 0.

    Raises OutsideFault and OutsideSilent.
    """
    for command in _within_bounds(run_of_tests(task)):
        if not is_well(await course.act(command)):
            return 0.0
    return 1.0


def _within_bounds(command: str) -> list[str]:
    """Return commands that do the same, one after another, none of which is too long; what it shows is left out."""
    silent = f"{{ {command}; }} >/dev/null 2>&1"  # what is beyond the most that is kept would end the tests
    if len(silent.encode()) <= MOST_ARGUMENT:
        return [silent]
    parts = [silent[start : start + PIECE] for start in range(0, len(silent), PIECE)]
    return [f"rm -rf {SCRIPT}", *(f"printf %s {shlex.quote(part)} >> {SCRIPT}" for part in parts), f"sh {SCRIPT}"]


class SweDesk(Desk[Step]):
    """One container's course. The problem statement is what is observed first."""

    def __init__(self, task: SweTask, course: Course, *, begun: bool = False) -> None:
        """``begun``: whether the problem statement has been observed."""
        self._task, self._course, self._begun = task, course, begun

    async def do(self, step: Step, answers: Answers) -> Sequence[Seen]:
        """Run a step's command."""
        command = step.filled(answers)
        seen = pieces(command, await self._course.act(command))
        stated = () if self._begun else problem(self._task)
        self._begun = True
        return [
            *(("say", Message("user", text)) for text in stated),
            *(("observe", Message("user", text)) for text in seen),
        ]

    async def rest(self) -> None:
        """Let others have the container's place."""
        await self._course.rest()

    def fork(self, outside: Outside) -> SweDesk:
        """Return a desk whose container is brought to the same point."""
        return SweDesk(self._task, self._course.fork(outside), begun=self._begun)

    async def reward(self) -> float:
        """Return 1 where all tests that count pass, else 0."""
        return await rewarded(self._task, self._course)

    async def aclose(self) -> None:
        """Remove the container, if there is one."""
        await self._course.aclose()


def problem(task: SweTask) -> list[str]:
    """Return the problem statement in pieces for a memory."""
    return [text.strip() for text in chunks(task.problem) if text.strip()]
