"""``mnemotune data``: make and check scenarios."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data import load_scenarios

Cli = Callable[..., Any]


def test_the_same_users_and_seed_make_the_same_bytes(cli: Cli) -> None:
    for name in ("one.json", "two.json"):
        cli("data", "generate", "--users", "3", "--seed", "5", "--out", name).succeeded()
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()


def test_a_process_of_its_own_makes_the_same_bytes(cli: Cli, start: Any) -> None:
    """Neither the order of sets nor of folders, which differ from process to process, plays a part."""
    cli("data", "generate", "--users", "2", "--seed", "5", "--out", "here.json").succeeded()
    assert start("data", "generate", "--users", "2", "--seed", "5", "--out", "there.json").wait(60) == 0
    assert Path("here.json").read_bytes() == Path("there.json").read_bytes()


def test_another_seed_makes_other_users(cli: Cli) -> None:
    for seed in ("5", "6"):
        cli("data", "generate", "--users", "1", "--seed", seed, "--out", f"{seed}.json").succeeded()
    one, other = (load_scenarios(f"{seed}.json")[0] for seed in ("5", "6"))
    assert one.id != other.id
    assert one.periods[0].state != other.periods[0].state


def test_more_users_begin_with_the_same_ones(cli: Cli) -> None:
    for users in ("2", "3"):
        cli("data", "generate", "--users", users, "--seed", "5", "--out", f"{users}.json").succeeded()
    assert load_scenarios("3.json")[:2] == load_scenarios("2.json")


def test_what_is_generated_is_what_the_short_name_means(cli: Cli) -> None:
    cli("data", "generate", "--users", "2", "--seed", "5", "--out", "users.json").succeeded()
    assert load_scenarios("users.json") == load_scenarios("generated:2@5")


def test_users_are_written_as_amemgym_writes_them_for_eyes_too(cli: Cli) -> None:
    done = cli("data", "generate", "--users", "2", "--out", "new/folder/users.json").succeeded()
    text = Path("new/folder/users.json").read_text(encoding="utf-8")
    rows = json.loads(text)
    assert isinstance(rows, list)
    assert {"id", "start_time", "user_profile", "state_schema", "periods", "qas"} <= rows[0].keys()
    assert text.endswith("\n")
    assert len(text.splitlines()) > 1000
    assert done.out == ""
    assert "2 users written to new/folder/users.json" in done.err


def test_sound_users_are_counted(cli: Cli, people: Path) -> None:
    done = cli("data", "check", people).succeeded()
    lines = done.out.splitlines()
    assert lines[0].startswith("user-1-000: 2 periods, ")
    assert ", 3 questions" in lines[0]
    assert lines[-1] == "8 users, no errors"


def test_the_bundled_set_is_sound(cli: Cli) -> None:
    assert cli("data", "check", "base").succeeded().out.splitlines()[-1] == "20 users, no errors"


def test_all_that_is_wrong_is_told_at_once(cli: Cli, people: Path) -> None:
    rows = json.loads(people.read_text(encoding="utf-8"))
    del rows[1]["qas"]
    rows[3]["periods"][1]["sessions"] = "none"
    Path("bad.json").write_text(json.dumps(rows), encoding="utf-8")
    told = cli("data", "check", "bad.json").refused()
    assert "user-1-001" in told
    assert "qas" in told
    assert "user-1-003" in told
    assert "period 1" in told


def test_updates_that_contradict_the_states_are_told(cli: Cli, people: Path) -> None:
    rows = json.loads(people.read_text(encoding="utf-8"))
    info = next(iter(rows[1]["periods"][1]["updates"]))
    del rows[1]["periods"][1]["updates"][info]
    Path("bad.json").write_text(json.dumps(rows), encoding="utf-8")
    told = cli("data", "check", "bad.json").refused()
    assert f"bad.json: user user-1-001: period 1: updates: lacks {info}" in told


@pytest.mark.parametrize("arguments", [["--users", "0"], ["--users", "many"], ["--seed", "-1"]])
def test_numbers_that_make_no_sense_are_refused_before_a_file_is_written(cli: Cli, arguments: list[str]) -> None:
    done = cli("data", "generate", "--out", "users.json", *arguments)
    assert done.code == 2
    assert arguments[0] in done.err
    assert not Path("users.json").exists()


def test_a_file_to_write_to_must_be_named(cli: Cli) -> None:
    done = cli("data", "generate")
    assert done.code == 2
    assert "--out" in done.err
