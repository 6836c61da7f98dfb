"""Runs that keep study and replies in PostgreSQL, from the command line.

1. They come out as they do in a folder, also after a kill, and pay for no reply twice but for those under way.
2. What is wrong with the database is told in one line, without a password; nothing is written then.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mnemotune.policies.lm import postgres
from postgresql import Server


@pytest.fixture
def url(postgresql: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database, as the environment names it."""
    url = postgresql.new_database()
    monkeypatch.setenv("MNEMOTUNE_STORAGE", url)
    return url


def found(done: Any) -> dict[str, Any]:
    rows = ("seed_policy", "best_policy")
    return {name: done.json[name]["by_group"] for name in rows} | {"trials": done.json["trials"]}


def test_a_run_that_is_killed_goes_on_to_the_same_end_and_pays_nothing_twice_invariant_1(
    cli: Any, start: Callable[..., subprocess.Popen[str]], remote: Path, server: Any, url: str
) -> None:
    clean = cli("evolve", remote, "--out", "clean", "--json").succeeded()
    needed = len(server.asked)
    server.asked.clear()
    process = start("evolve", remote, "--out", "run", "--set", f"storage={url}")
    deadline = time.monotonic() + 60
    while len(server.asked) < needed // 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.communicate()
    resumed = cli("evolve", "--resume", "run", "--json").succeeded()
    assert found(resumed) == found(clean)
    assert needed <= len(server.asked) <= needed + 16, "at most the calls under way are asked again"
    assert not {"study.db", "cache.db"} & {path.name for path in Path("run").iterdir()}
    written = [path for path in Path("run").rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert written == []
    assert cli("report", "run").succeeded().out == "run/report.html\n"
    assert cli("evolve", remote, "--out", "run").refused().startswith("run: holds a run already")


def test_the_searches_of_an_ablation_share_a_database_invariant_1(
    cli: Any, tiny: Path, tmp_path: Path, postgresql: Server, url: str
) -> None:
    variants = {"search": {"search.candidates": 1}, "none": {"search.generations": 0}}
    ablation = tmp_path / "parts.yaml"
    ablation.write_text(yaml.safe_dump({"config": str(tiny), "seeds": [0], "variants": variants}), encoding="utf-8")
    command = ["ablate", ablation, "--out", "out", "--set", f"storage={url}", "--json"]
    first = cli(*command).succeeded().json
    assert postgresql.ask("SELECT count(*) FROM studies", url) == [(2,)]
    assert cli(*command).succeeded().json == first
    assert postgresql.ask("SELECT count(*) FROM studies", url) == [(2,)]


def test_a_database_that_goes_away_ends_a_run_with_the_command_that_goes_on_invariant_1(
    cli: Any, remote: Path, server: Any, postgresql: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = cli("evolve", remote, "--out", "clean", "--json").succeeded()
    server.asked.clear()
    monkeypatch.setattr(postgres, "PATIENCE_SECONDS", 0.5)

    def go_away(_role: str, _text: str) -> None:
        if len(server.asked) == 100:
            postgresql.stop()

    server.whim = go_away
    done = cli("evolve", remote, "--out", "run", "--set", f"storage={url}", "--json")
    postgresql.start()
    assert (done.code, done.out) == (75, "")
    assert "Traceback" not in done.err
    assert "The database is waited for" in done.err
    assert "`mnemotune evolve --resume run` goes on" in done.err
    assert found(cli("evolve", "--resume", "run", "--json").succeeded()) == found(clean)


@pytest.mark.parametrize("what", ["password", "port", "database", "URL"])
def test_a_database_that_cannot_be_used_is_told_in_one_line_invariant_2(
    cli: Any, remote: Path, postgresql: Server, what: str
) -> None:
    url = {
        "password": postgresql.url(password="secret-but-wrong"),  # noqa: S106 - it is
        "port": postgresql.url().replace(str(postgresql.port), "1"),
        "database": postgresql.url("nowhere"),
        "URL": "mysql://me:secret@127.0.0.1/x",
    }[what]
    refusal = cli("evolve", remote, "--out", "run", "--set", f"storage={url}").refused()
    assert len(refusal.splitlines()) == 1
    assert "secret" not in refusal
    assert not Path("run").exists()
