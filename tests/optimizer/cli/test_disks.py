"""Real disks that are full or read-only: one line, nothing that was written is lost, and the run goes on later.

Only root may mount; without, these tests are skipped.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
KIBIBYTE = 1024


class Disk:
    """A disk of a megabyte, in memory, and the same one where nothing can be written."""

    def __init__(self, folder: Path) -> None:
        self.place, self.read_only = folder / "disk", folder / "read-only"
        for place in (self.place, self.read_only):
            place.mkdir()

    def mount(self, *arguments: str | Path) -> bool:
        return subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False).returncode == 0

    def open(self) -> bool:
        """Make the disk; tell whether that may be."""
        return (
            self.mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", self.place)
            and self.mount("--bind", self.place, self.read_only)
            and self.mount("-o", "remount,bind,ro", self.read_only)
        )

    def close(self) -> None:
        for place in (self.read_only, self.place):  # lazily: databases that are done with may still be open here
            subprocess.run(["umount", "--lazy", str(place)], capture_output=True, check=False)

    def make_room(self) -> None:
        assert self.mount("-o", "remount,size=20m", self.place)

    def leave(self, kibibytes: int) -> None:
        """Fill the disk, but for so much."""
        filler = self.place / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"x" * KIBIBYTE):
                pass
        with filler.open("rb+") as file:
            file.truncate(max(0, filler.stat().st_size - kibibytes * KIBIBYTE))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    try:
        if not made.open():
            pytest.skip("only root may mount")
        yield made
    finally:
        made.close()


def found(folder: Path) -> Any:
    """What a run found, without what it took."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {name: result[name] for name in ("difference", "over_window", "trials", "accepted", "ended")}


@pytest.mark.exhaustive("kibibytes")
@pytest.mark.parametrize("kibibytes", [0, 180, 300])
def test_a_run_on_a_full_disk_ends_with_one_line_and_goes_on_when_there_is_room(
    cli: Cli, tiny: Path, disk: Disk, kibibytes: int
) -> None:
    disk.leave(kibibytes)
    run = disk.place / "run"
    done = cli("evolve", tiny, "--out", run)
    assert "Traceback" not in done.err
    if done.code:
        *_, last = done.err.splitlines()
        assert last.startswith("error: ")
        assert done.err.count("error: ") == 1
    if (run / "config.yaml").exists():
        disk.make_room()
        cli("evolve", "--resume", run).succeeded()
        cli("evolve", tiny, "--out", "clean").succeeded()
        assert found(run) == found(Path("clean"))
    else:
        assert [path.name for path in disk.place.iterdir()] == ["filler"]


def test_nothing_of_a_run_is_lost_that_is_gone_on_with_on_a_full_disk(cli: Cli, tiny: Path, disk: Disk) -> None:
    run = disk.place / "run"
    cli("evolve", tiny, "--out", run).succeeded()
    before = {file: file.read_bytes() for file in run.iterdir() if file.suffix in {".yaml", ".json", ".html"}}
    disk.leave(0)
    for command in (["evolve", "--resume", run], ["report", run]):
        done = cli(*command)
        assert "Traceback" not in done.err
        assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize(
    "command",
    [
        ["evolve", "{tiny}", "--out", "{disk}/new"],
        ["evolve", "--resume", "{disk}/run"],
        ["evaluate", "native", "--data", "{people}", "--out", "{disk}/new"],
        ["evaluate", "native", "--data", "{people}", "--export", "{disk}/new"],
        ["ranks", "native", "rag", "--data", "{people}", "--out", "{disk}/new"],
        ["data", "generate", "--users", "1", "--out", "{disk}/new.json"],
        ["data", "generate", "--model", "embedded", "--users", "1", "--out", "{disk}/new.json"],
        ["memrm", "collect", "--policies", "native", "--data", "{people}", "--out", "{disk}/new.jsonl"],
        ["report", "{disk}/run"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_a_disk_that_is_read_only_is_told_in_one_line(
    cli: Cli, command: list[str], tiny: Path, people: Path, disk: Disk
) -> None:
    if command[-1] == "{disk}/run":
        disk.make_room()
        cli("evolve", tiny, "--out", disk.place / "run", "--set", "search.generations=0").succeeded()
    told = cli(*(part.format(tiny=tiny, people=people, disk=disk.read_only) for part in command)).refused()
    assert len(told.splitlines()) == 1
    assert "ead-only" in told or "readonly" in told


def test_a_run_where_nothing_may_be_written_can_be_looked_at(cli: Cli, finished: Path, disk: Disk) -> None:
    disk.make_room()
    shutil.copytree(finished, disk.place / "run")
    run = disk.read_only / "run"
    shown = cli("show", run).succeeded()
    assert "Sealed test: 3 users" in shown.out
    for command in (["runs", disk.read_only], ["compare", run, finished], ["export", run, "--to", "yaml"]):
        assert "cannot be" not in cli(*command).succeeded().out
    assert "is no folder that can be written to" in cli("report", run).err


def test_a_run_that_another_program_has_locked_is_not_called_damaged(cli: Cli, finished: Path) -> None:
    with closing(sqlite3.connect(finished / "study.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = cli("show", finished)
    assert done.code
    last = "study.db cannot be used (database is locked); another program is using it: try again later"
    assert done.err.strip().endswith(last)
