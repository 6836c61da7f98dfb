"""A PostgreSQL server of the tests' own, on the loopback interface, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest

USER, PASSWORD = "mnemotune", "a secret/word"  # of a server that lives for a test
QUOTED_PASSWORD = "a%20secret%2Fword"  # noqa: S105
QUICK = ["fsync=off", "full_page_writes=off", "listen_addresses=127.0.0.1", "unix_socket_directories="]
_numbers = count()


@dataclass
class Server:
    """A server that can be stopped and started again."""

    programs: Path
    folder: Path
    port: int

    def start(self) -> None:
        settings = [*QUICK, f"port={self.port}"]
        options = " ".join(f"-c {setting}" for setting in settings)
        self._run("pg_ctl", "-D", "data", "-w", "-s", "-l", "log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", "data", "-w", "-s", "-m", mode, "stop")

    def url(self, database: str = "postgres", *, password: str = QUOTED_PASSWORD) -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self, *, like: str = "/template1") -> str:
        """Make a copy of a database, else an empty one, and return its URL."""
        name = f"test_{next(_numbers)}"
        self.ask(f"CREATE DATABASE {name} TEMPLATE {like.rpartition('/')[2]}")
        return self.url(name)

    def ask(self, query: str, url: str | None = None) -> list[tuple[object, ...]]:
        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def make(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        self._run("initdb", "-D", "data", "-A", "scram-sha-256", "-U", USER, "--pwfile=password", "-N", "-E", "UTF8")

    def _run(self, program: str, *arguments: str) -> None:
        """Run a program of the server's, not as root: it refuses that."""
        command: Sequence[str] = [str(self.programs / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 0, done.stderr.decode()


@contextmanager
def postgresql_server() -> Iterator[Server]:
    """Run a server in a new folder. The test is skipped where PostgreSQL is not installed."""
    onpath = [Path(found)] if (found := shutil.which("initdb")) else []
    installed = [*onpath, *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)]  # Debian's
    if not installed:
        pytest.skip("PostgreSQL is not installed: apt-get install --no-install-recommends postgresql")
    with tempfile.TemporaryDirectory(prefix="mnemotune-postgresql-") as name, socket.socket() as free:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = Server(installed[0].parent, folder, port)
        server.make()
        server.start()
        try:
            yield server
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                server.stop("immediate")
