"""A Docker engine for tests: the one that answers, else one of the tests' own, which all of them share."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
import pytest
from filelock import FileLock

STORAGE = ("overlay2", "vfs")
"""The second one works everywhere."""
START_SECONDS = 30
NONE = (
    "there is no Docker engine: apt-get install --no-install-recommends docker.io (root starts it), or set DOCKER_HOST"
)


@contextmanager
def docker_engine(shared: Path) -> Iterator[str]:
    """Have an engine answer at DOCKER_HOST. The test is skipped where there is none.

    One of the tests' own is started by the first process that needs it and ended by the last; ``shared`` is a folder
    that all of them know.
    """
    if _answers(None):
        yield os.environ.get("DOCKER_HOST", "")
        return
    daemon = shutil.which("dockerd") or shutil.which("dockerd", path="/usr/sbin:/sbin")
    if os.environ.get("DOCKER_HOST") or os.geteuid() != 0 or daemon is None:
        pytest.skip(NONE)
    shared.mkdir(parents=True, exist_ok=True)
    users, lock = shared / "users", FileLock(shared / "lock")
    with lock:
        home = _home(shared, daemon)
        if home is None:
            pytest.skip(f"the Docker engine does not start: {_last_line(shared / 'log')}")
        users.mkdir(exist_ok=True)
        (users / str(os.getpid())).touch()
    address = f"unix://{home / 'socket'}"
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = address
    try:
        yield address
    finally:
        os.environ.pop("DOCKER_HOST") if before is None else os.environ.update(DOCKER_HOST=before)
        with lock:
            (users / str(os.getpid())).unlink(missing_ok=True)
            if not any(Path(f"/proc/{user.name}").exists() for user in users.iterdir()):
                _end(home)
                (shared / "home").unlink()


def _home(shared: Path, daemon: str) -> Path | None:
    """Return the folder of the engine that runs, or of a new one."""
    known = shared / "home"
    if known.exists() and _answers(f"unix://{known.read_text()}/socket"):
        return Path(known.read_text())
    for storage in STORAGE:
        home = Path(tempfile.mkdtemp(prefix="mnemotune-docker-"))  # short: the name of a socket may have 107 bytes
        if _start(daemon, home, storage, shared / "log"):
            known.write_text(str(home))
            return home
        _end(home)
    return None


def _start(daemon: str, home: Path, storage: str, log: Path) -> bool:
    plain = ["--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none", "--log-level=error"]
    places = [f"--data-root={home}/data", f"--exec-root={home}/exec", f"--pidfile={home}/pid"]
    command = [daemon, f"--host=unix://{home}/socket", f"--storage-driver={storage}", *plain, *places]
    with log.open("ab") as file:
        started = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and started.poll() is None:
        if _answers(f"unix://{home}/socket"):
            return True
        time.sleep(0.1)
    return False


def _end(home: Path) -> None:
    """End the engine of a folder, and remove what it leaves."""
    with suppress(FileNotFoundError, ValueError, ProcessLookupError):
        number = int((home / "pid").read_text())
        os.kill(number, signal.SIGTERM)
        until = time.monotonic() + START_SECONDS
        while _runs(number) and time.monotonic() < until:
            time.sleep(0.1)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(home) in line]
    for mount in reversed(mounts):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    shutil.rmtree(home, ignore_errors=True)


def _runs(number: int) -> bool:
    """Tell whether a process has not ended; one that its parent has not looked at yet has."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _answers(address: str | None) -> bool:
    try:
        client = docker.from_env(timeout=10) if address is None else docker.DockerClient(address, timeout=10)
    except docker.errors.DockerException:
        return False
    try:
        return bool(client.ping())
    except docker.errors.DockerException:
        return False
    finally:
        client.close()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return lines[-1][:300] if lines else "it says nothing"
