"""Malformed inputs to every command: each must end with one line, an exit code that is not 0, and nothing written.

python -m mnemotune.experiments.reliability.malformed [OUT]
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir, closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import typer
import yaml

from ...data.dialogue.generator import generate_scenarios
from ...data.json_files import write_json
from ...data.resources import resource
from ...optimizer.cli import main as command_line
from ..command import run

CASES = Path(__file__).with_suffix(".yaml")
DEEP = "a." * 2000 + "a"
OWN_PROCESS = 10
"""Each case of so many is also tried in a process of its own."""
PREPARATIONS = (
    "evolve ok.yaml --out run",
    "evaluate awi --data users.json --users user-1-000,user-1-001 --out talks --export results --json",
    "memrm collect --policies awi --data users.json --users user-1-000,user-1-001 --out rows.jsonl",
    "data generate --config making.yaml --users 1 --out made.json",
)
"""Commands that make the whole files that cases damage."""


@dataclass(frozen=True, slots=True)
class Case:
    """A command, and the file that is written, changed or damaged before it."""

    command: str
    file: str | None = None
    how: str = ""
    given: Any = None

    @property
    def name(self) -> str:
        """What is wrong, in one line."""
        given = json.dumps(self.given, ensure_ascii=False, default=str)[:60]
        return self.command[:100] if self.file is None else f"{self.command[:60]} ({self.how} {self.file}: {given})"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def read_cases(path: Path = CASES) -> list[Case]:
    """Return all cases of a file."""
    cases = []
    for group in yaml.safe_load(path.read_text(encoding="utf-8")):
        commands = [group["command"]] if isinstance(group["command"], str) else group["command"]
        how = next((key for key in ("write", "change", "execute") if key in group), "")
        for command, given in product(commands, group.get("each", [""])):
            filled = command if how else command.replace("{}", shlex.quote(given.replace("{deep}", DEEP)))
            cases.append(Case(filled, group.get(how), how, given))
    return cases


def prepare(folder: Path) -> None:
    """Make whole files, which cases damage: users, configs, a run, talks, results, rows, a checkpoint, parts."""
    users = [scenario.model_dump(mode="json") for scenario in generate_scenarios(users=6, seed=1)]
    short = [{**user, "periods": user["periods"][:2], "qas": user["qas"][:2]} for user in users]
    write_json(folder / "users.json", short)
    for name, text in yaml.safe_load(CASES.with_name("prepared.yaml").read_text(encoding="utf-8")).items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "checkpoint").mkdir()
    for file in resource("env", "memrm", "tiny").iterdir():
        (folder / "checkpoint" / file.name).write_bytes(file.read_bytes())
    for command in PREPARATIONS:
        ended = in_this_process(command, folder)
        if ended.code:
            raise RuntimeError(f"{command}: {ended.err}")


def in_this_process(command: str, folder: Path) -> Ended:
    """Run a command in a folder, in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = patch.object(sys, "argv", ["mnemotune", *shlex.split(command)])
    with chdir(folder), redirect_stdout(out), redirect_stderr(err), argv:
        try:
            command_line()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException as error:  # noqa: BLE001 - what a user would see as a traceback
            err.write(f"Traceback: {type(error).__name__}: {error}\n")
            code = 1
    return Ended(code, out.getvalue(), err.getvalue())


def in_own_process(command: str, folder: Path) -> Ended:
    """Run a command in a folder, in a process of its own."""
    whole = [sys.executable, "-m", "mnemotune", *shlex.split(command)]
    done = subprocess.run(whole, cwd=folder, capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def damage(case: Case, folder: Path) -> None:
    """Write or change the case's file."""
    if case.file is None:
        return
    file = folder / case.file
    file.parent.mkdir(exist_ok=True)
    if case.how == "change":
        values = json.loads(
            file.read_text(encoding="utf-8").splitlines()[0]
            if file.suffix == ".jsonl"
            else file.read_text(encoding="utf-8")
        )
        for path, value in case.given.items():
            values = _with(values, str(path).split("."), value)
        file.write_text(json.dumps(values) + "\n", encoding="utf-8")
    elif case.how == "execute":
        with closing(sqlite3.connect(file)) as database, database:
            database.executescript(case.given)
    else:
        file.write_bytes(_bytes(case.given, folder))


def _with(values: Any, path: Sequence[str], value: Any) -> Any:
    """Return JSON values with another value at a place."""
    first, *rest = path
    key = int(first) if isinstance(values, list) else first
    inner = _with(values[key], rest, value) if rest else value
    if isinstance(values, list):
        return [inner if i == key else item for i, item in enumerate(values)]
    return {**values, key: inner}


def _bytes(given: Any, folder: Path) -> bytes:
    if isinstance(given, str):
        return given.encode("utf-8", "surrogatepass")
    if "hex" in given:
        return bytes.fromhex(given["hex"])
    if "repeat" in given:
        repeated: str = given["repeat"] * given["times"] + given.get("end", "") * given["times"]
        return repeated.encode()
    start: bytes = (folder / given["start_of"]).read_bytes()[: given["bytes"]]
    return start


def state(folder: Path) -> dict[str, str]:
    """Return what is in a folder: a digest for each file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return found


def faults(ended: Ended, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Yield what is wrong with how a command ended."""
    lines = ended.err.splitlines()
    if ended.code == 0:
        yield "exit code 0"
    if "Traceback" in ended.err:
        yield "a traceback"
    elif len(lines) != 1:
        yield f"{len(lines)} lines"
    elif not lines[0].startswith("error: "):
        yield "no error"
    if ended.out:
        yield "output"
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        yield f"wrote {', '.join(changed[:4])}"


def tried(case: Case, whole: Path, folder: Path, *, own_process: bool = False) -> tuple[Ended, list[str]]:
    """Try a case in a new copy of the whole files, which is removed; return how it ended, and what is wrong."""
    shutil.copytree(whole, folder)
    try:
        damage(case, folder)
        before = state(folder)
        ended = (in_own_process if own_process else in_this_process)(case.command, folder)
        return ended, list(faults(ended, before, state(folder)))
    finally:
        shutil.rmtree(folder)


def main(out: Annotated[Path | None, typer.Argument()] = None) -> None:
    """Try all cases; print those that end otherwise, and how many there are."""
    with tempfile.TemporaryDirectory() as place, patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith(("OPENAI_", "MLFLOW_"))]:
            del os.environ[name]
        whole = Path(place, "whole")
        whole.mkdir()
        prepare(whole)
        cases = read_cases()
        every = [*((case, False) for case in cases), *((case, True) for case in cases[::OWN_PROCESS])]
        rows = []
        for case, own in every:
            ended, wrong = tried(case, whole, Path(place, "case"), own_process=own)
            rows.append({"case": case.name, "own process": own, "code": ended.code, "error": ended.err, "wrong": wrong})
            if wrong:
                where = " in a process of its own" if own else ""
                print(f"{case.name}{where}: {'; '.join(wrong)}\n    {ended.err.strip()[-300:]}", flush=True)
    good = sum(not row["wrong"] for row in rows)
    print(f"{len(cases)} cases, {len(every) - len(cases)} of them also in a process of their own")
    print(f"{good} of {len(rows)} end with one line, an exit code that is not 0, and nothing written")
    if out is not None:
        write_json(out / "malformed.json", rows)
    if good < len(rows):
        sys.exit(1)


if __name__ == "__main__":
    run(main)
