"""``mnemotune data`` with other tracks than the dialogue: tasks are written, checked, and score the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
EVALUATED = ("codeqa", "research", "tools")
"""Those that need no browser."""
TRACKS = {"codeqa": "packages", "research": "dossiers", "tools": "customers", "web": "instances"}
SOURCE = "generated:2@3"


@pytest.mark.exhaustive("track")
@pytest.mark.parametrize("track", TRACKS)
def test_tasks_in_a_file_are_those_that_were_made(cli: Cli, track: str) -> None:
    made = ("--track", track, "--data", SOURCE)
    done = cli("data", "generate", *made, "--out", "tasks.jsonl").succeeded()
    assert done.err.endswith(f" tasks of 2 {TRACKS[track]} written to tasks.jsonl\n")
    both = [cli("data", "check", source, "--track", track).succeeded().out for source in ("tasks.jsonl", SOURCE)]
    assert both[0] == both[1]
    assert both[0].splitlines()[-1].endswith(f" tasks of 2 {TRACKS[track]}, no errors")


@pytest.mark.parametrize("name", ["tasks.json", "tasks.JSONL", "tasks.txt", "tasks"])
@pytest.mark.parametrize("track", TRACKS)
def test_tasks_are_read_from_the_file_that_was_written_whatever_its_name(cli: Cli, track: str, name: str) -> None:
    cli("data", "generate", "--track", track, "--data", SOURCE, "--out", name).succeeded()
    done = cli("data", "check", name, "--track", track).succeeded()
    assert done.out.splitlines()[-1].endswith(f" tasks of 2 {TRACKS[track]}, no errors")


@pytest.mark.parametrize("track", EVALUATED)
def test_tasks_in_a_file_are_answered_as_those_that_were_made(cli: Cli, track: str) -> None:
    made = ("--track", track, "--data", SOURCE)
    cli("data", "generate", *made, "--out", "tasks.jsonl").succeeded()
    first = cli("evaluate", "rag", *made, "--no-window", "--json").succeeded().json
    again = cli("evaluate", "rag", "--track", track, "--data", "tasks.jsonl", "--no-window", "--json").succeeded().json
    assert again["by_group"] == first["by_group"]
    assert (first["context_tokens"], first["embedder"]) == (again["context_tokens"], "lexical:1024")


def test_a_file_of_another_track_is_refused_by_name_and_row(cli: Cli) -> None:
    cli("data", "generate", "--track", "research", "--data", SOURCE, "--out", "tasks.jsonl").succeeded()
    for track in ("codeqa", "tools"):
        refusal = cli("data", "check", "tasks.jsonl", "--track", track).refused()
        assert f"tasks.jsonl: row 0: is a task of the track 'research', not of {track}" in refusal


@pytest.mark.parametrize("track", TRACKS)
def test_a_broken_task_is_refused_with_its_row_and_field(cli: Cli, track: str) -> None:
    cli("data", "generate", "--track", track, "--data", SOURCE, "--out", "tasks.jsonl").succeeded()
    lines = Path("tasks.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(lines[1])
    del row["task"]["id"]
    Path("tasks.jsonl").write_text("\n".join([lines[0], json.dumps(row)]), encoding="utf-8")
    assert "row 1: id: " in cli("data", "check", "tasks.jsonl", "--track", track).refused()


def test_only_a_source_and_a_file_go_with_another_track(cli: Cli) -> None:
    for given in (("--users", "3"), ("--seed", "3"), ("--size", "base"), ("--model", "embedded"), ("--json",)):
        done = cli("data", "generate", "--track", "tools", *given, "--out", "x.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "only --data and --out go with another track" in done.err
    assert cli("data", "generate", "--data", SOURCE, "--out", "x.json").code == 2
    assert not Path("x.jsonl").exists()


def test_a_file_of_tasks_does_not_say_which_code_is_run(cli: Cli) -> None:
    cli("data", "generate", "--track", "tools", "--data", SOURCE, "--out", "tasks.jsonl").succeeded()
    row = json.loads(Path("tasks.jsonl").read_text(encoding="utf-8").splitlines()[0])
    row["task"]["domain"] = "tau2:/somewhere/airline"
    Path("tasks.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert "row 0: domain: is not of workshop" in cli("data", "check", "tasks.jsonl", "--track", "tools").refused()
