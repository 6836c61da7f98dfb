"""Runs whose study is in a PostgreSQL database.

Invariants:
1. The study is the one that the run folder would have.
2. One process is at work on a run, also when it has a copy of the folder.
3. What is not there is never started anew.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.errors import TryLater
from mnemotune.optimizer.config import Config, ConfigError, load_config
from mnemotune.optimizer.forget import FORGOTTEN, forget_in_run
from mnemotune.optimizer.search.outcome import Outcome, holds_run, open_run
from mnemotune.optimizer.search.place import is_at_work, lock_name
from mnemotune.policies.lm import postgres
from mnemotune.policies.lm.postgres import DatabaseError, DatabaseSilent, Lock, Taken
from postgresql import Server
from running import TRIAL_2, Screen, Stop, assert_same_study, go, go_on


@pytest.fixture(scope="module")
def begun_once(
    configured: Callable[..., Config], postgresql: Server, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A run that was stopped when trial 2 was done, and its database; they must not be changed."""
    url, folder = postgresql.new_database(), tmp_path_factory.mktemp("runs") / "run"
    with pytest.raises(Stop):
        go(configured(f"storage={url}"), folder, Screen(TRIAL_2))
    gc.collect()  # a database with connections cannot be copied
    return folder, url


@pytest.fixture
def url(begun_once: tuple[Path, str], postgresql: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of that database."""
    url = postgresql.new_database(like=begun_once[1])
    monkeypatch.setenv("MNEMOTUNE_STORAGE", url)
    return url


@pytest.fixture
def begun(begun_once: tuple[Path, str], url: str, tmp_path: Path) -> Path:
    """A copy of that run."""
    folder = Path(shutil.copytree(begun_once[0], tmp_path / "run"))
    before, after = (address.rpartition("/")[2] for address in (begun_once[1], url))
    config = (folder / "config.yaml").read_text(encoding="utf-8")
    (folder / "config.yaml").write_text(config.replace(f"/{before}\n", f"/{after}\n"), encoding="utf-8")
    return folder


def study_name(run: Path) -> str:
    storage = load_config(run / "config.yaml").storage
    assert storage is not None
    return str(storage.study)


def test_a_run_that_was_stopped_goes_on_in_the_database_invariant_1(begun: Path, finished: Outcome, kit: Any) -> None:
    assert holds_run(begun)
    assert not (begun / "study.db").exists()
    assert "secret" not in (begun / "config.yaml").read_text(encoding="utf-8")
    outcome = go_on(begun)
    assert_same_study(outcome, finished, kit)
    assert_same_study(open_run(begun), finished, kit)


def test_two_runs_in_one_database_do_not_see_each_other(
    begun: Path, configured: Callable[..., Config], url: str, tmp_path: Path
) -> None:
    other = go(configured(f"storage={url}", "search.generations=0"), tmp_path / "again" / "run")
    assert len(other.study.trials) == 1
    assert len(open_run(begun).study.trials) == 3


def test_a_run_in_a_database_forgets_what_its_study_quotes(begun: Path, postgresql: Server, url: str) -> None:
    quoted = next(trial for trial in open_run(begun).study.trials if trial.evidence)
    fact = max(quoted.evidence[0].text.splitlines(), key=len)
    gc.collect()
    assert forget_in_run(begun, fact).texts > 0
    after = open_run(begun).study.trials
    assert after[quoted.number].evidence[0].text == FORGOTTEN
    assert len(after) == 3
    kept = str(postgresql.ask("SELECT value_json FROM trial_user_attributes WHERE key = 'evidence'", url))
    assert json.dumps(json.dumps(fact))[3:-3] not in kept


def test_a_copy_of_the_folder_cannot_go_on_meanwhile_invariant_2(begun: Path, url: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(begun, tmp_path / "copy"))
    lock = Lock(url, f"mnemotune {study_name(begun)}")
    with pytest.raises(ConfigError, match="copy: another process is at work on this run"):
        go_on(copy)
    lock.close()
    assert go_on(copy).test.done


def test_a_study_that_is_gone_is_not_started_anew_invariant_3(begun: Path, postgresql: Server, url: str) -> None:
    postgresql.ask("UPDATE studies SET study_name = 'mine'", url)
    with pytest.raises(ConfigError, match=r"there is no study named 'run-.*start another run"):
        go_on(begun)


@pytest.mark.parametrize("table", ["trials", "study_user_attributes", "trial_user_attributes", "studies"])
def test_a_study_that_lacks_a_table_is_refused_invariant_3(
    begun: Path, postgresql: Server, url: str, table: str
) -> None:
    postgresql.ask(f"DROP TABLE {table} CASCADE", url)
    with pytest.raises(ConfigError, match=r"the study .*start another run") as caught:
        go_on(begun)
    assert len(str(caught.value).splitlines()) == 1
    assert postgresql.ask(f"SELECT to_regclass('{table}')", url) == [(None,)]


def test_a_study_with_a_trial_missing_is_refused_invariant_3(begun: Path, postgresql: Server, url: str) -> None:
    postgresql.ask("UPDATE trials SET number = 7 WHERE number = 1", url)
    with pytest.raises(ConfigError, match="the study is damaged: a trial is missing"):
        go_on(begun)


def test_a_name_that_is_there_already_is_refused(
    begun: Path, configured: Callable[..., Config], url: str, tmp_path: Path
) -> None:
    storage = f"storage={{url: '{url}', study: {study_name(begun)}}}"
    with pytest.raises(ConfigError, match="is there already; --resume its run"):
        go(configured(storage), tmp_path / "other")
    assert not holds_run(tmp_path / "other")


def test_a_database_with_another_programs_tables_is_refused(
    configured: Callable[..., Config], postgresql: Server, tmp_path: Path
) -> None:
    url = postgresql.new_database()
    postgresql.ask("CREATE TABLE alembic_version (version_num text)", url)
    with pytest.raises(ConfigError, match="holds another program's tables"):
        go(configured(f"storage={url}"), tmp_path / "run")
    assert postgresql.ask("SELECT to_regclass('studies')", url) == [(None,)]


def test_a_login_that_is_not_known_any_more_is_asked_for(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNEMOTUNE_STORAGE")
    with pytest.raises(DatabaseError, match="is not written down: set MNEMOTUNE_STORAGE"):
        open_run(begun)


def test_a_run_at_work_on_another_machine_is_seen_to_be(begun: Path, url: str) -> None:
    storage = open_run(begun).config.storage
    assert storage is not None
    assert not is_at_work(begun, storage)
    with closing(Lock(url, lock_name(storage))):
        assert is_at_work(begun, storage)
    assert not is_at_work(begun, storage)


@pytest.mark.parametrize("what", ["password", "port", "database"])
def test_a_database_that_cannot_be_reached_is_told_in_one_line_without_the_password(
    configured: Callable[..., Config], postgresql: Server, tmp_path: Path, what: str
) -> None:
    url = {
        "password": postgresql.url(password="wrong"),  # noqa: S106 - it is
        "port": postgresql.url().replace(str(postgresql.port), "1"),
        "database": postgresql.url("nowhere"),
    }[what]
    with pytest.raises(DatabaseError, match=r"^postgresql://\*\*\*@127\.0\.0\.1") as caught:
        go(configured(f"storage={url}"), tmp_path / "run")
    assert len(str(caught.value).splitlines()) == 1
    assert "secret" not in str(caught.value)
    assert not holds_run(tmp_path / "run")


class Pull(Screen):
    """What a run prints; does something when the line of trial 2 comes."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self.act = act
        self.acted = False

    def write(self, text: str) -> int:
        if TRIAL_2 in text and not self.acted:
            self.acted = True
            self.act()
        return super().write(text)


def test_a_run_waits_for_a_database_that_starts_again_invariant_1(
    configured: Callable[..., Config], postgresql: Server, tmp_path: Path, finished: Outcome, kit: Any
) -> None:
    def restart() -> None:
        postgresql.stop()
        threading.Timer(1.0, postgresql.start).start()

    screen = Pull(restart)
    outcome = go(configured(f"storage={postgresql.new_database()}"), tmp_path / "run", screen)
    assert screen.acted
    assert_same_study(outcome, finished, kit)


def test_what_a_run_found_can_be_read_while_the_database_starts_again(
    begun: Path, postgresql: Server, finished: Outcome, kit: Any
) -> None:
    outcome = go_on(begun)
    postgresql.stop()
    threading.Timer(1.0, postgresql.start).start()
    assert_same_study(outcome, finished, kit)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PATIENCE_SECONDS", 0.5)


@pytest.mark.usefixtures("impatient")
def test_a_run_whose_database_stays_away_can_be_resumed_later_invariant_1(
    configured: Callable[..., Config],
    postgresql: Server,
    tmp_path: Path,
    finished: Outcome,
    kit: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = postgresql.new_database()
    monkeypatch.setenv("MNEMOTUNE_STORAGE", url)
    with pytest.raises(DatabaseSilent, match=r"Connection refused.*tried for") as caught:
        go(configured(f"storage={url}"), tmp_path / "run", Pull(postgresql.stop))
    postgresql.start()
    assert isinstance(caught.value, TryLater)
    assert len(str(caught.value).splitlines()) == 1
    assert_same_study(go_on(tmp_path / "run"), finished, kit)


@pytest.mark.usefixtures("impatient")
def test_a_run_whose_lock_another_took_meanwhile_writes_nothing_more_invariant_2(
    configured: Callable[..., Config], postgresql: Server, tmp_path: Path
) -> None:
    url = postgresql.new_database()
    others = []

    def take() -> None:
        postgresql.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()", url)
        others.append(Lock(url, f"mnemotune {study_name(tmp_path / 'run')}"))

    with pytest.raises(DatabaseError, match="another process holds the lock of 'mnemotune run-"):
        go(configured(f"storage={url}"), tmp_path / "run", Pull(take))
    others[0].close()
    rows = postgresql.ask("SELECT count(*) FROM trials", url)
    assert rows == [(3,)]


HOLDER = """
import sys, time
from mnemotune.policies.lm.postgres import Lock

lock = Lock(sys.argv[1], "a")
print("held", flush=True)
time.sleep(60)
"""


def test_a_killed_process_lets_go_of_its_lock(postgresql: Server) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", HOLDER, postgresql.url()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Taken):
            Lock(postgresql.url(), "a")
        holder.kill()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(Taken):
            Lock(postgresql.url(), "a").close()
            return
    pytest.fail("the lock is still held")
