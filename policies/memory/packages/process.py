"""The process in which a package remembers: requests to it and its replies, as lines of JSON."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....data.errors import MnemotuneError
from ..protocol import MemoryFault
from .extra import has_extra

HOSTED = "hosted"
HERE = Path(__file__).parent
OFFLINE = {
    "MEM0_TELEMETRY": "False",
    "ANONYMIZED_TELEMETRY": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TZ": "UTC",
}
LEADS_ELSEWHERE = re.compile(r"(?i)[A-Z0-9_]*API_KEY|(OPENAI|OPENROUTER|LANGCHAIN|LANGSMITH)_.*|(HTTPS?|ALL)_PROXY")
"""Variables by which a package would call another endpoint than ours, or send what it does to one."""
DATABASES = ("nemori-package",)
"""Packages that keep their memories in PostgreSQL."""
NO_EXTRAS = ("nemori-package",)
"""Packages on no package index, which no extra can name."""
SECONDS_TO_REACH = 180.0
"""In which a package is loaded and reaches its database: a machine with much to do is slow."""
SECONDS_TO_END = 10.0
"""In which a process removes what it has kept elsewhere; then it is killed."""
LAST_CHARACTERS = 500
"""Of what a process that ended has printed, in the error."""


class PackageError(MnemotuneError, RuntimeError):
    """A package cannot be started."""


class Store:
    """What a package remembers; it never changes, and is removed once nobody holds it."""

    def __init__(self, process: Process, name: str) -> None:
        """Hold the store of this name."""
        self.name = name
        self.process = process
        weakref.finalize(self, process.left.append, name)


class Process:
    """A process of one package, for all its memories in this program."""

    def __init__(self, package: str, python: str) -> None:
        """Start it under the interpreter ``python``. Raises PackageError where there is none."""
        self.package = package
        self.left: deque[str] = deque()
        """Stores that nobody holds any more."""
        self.folder = Path(tempfile.mkdtemp(prefix=f"mnemotune-{package}-"))
        self._errors = self.folder / "stderr.txt"
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[Future[Any], dict[str, Any]]] = {}
        """Requests without a reply; they hold their stores, also where nobody waits any more."""
        self._sending = threading.Lock()
        home = {"MEM0_DIR": str(self.folder / "home")}
        kept = {name: value for name, value in os.environ.items() if not LEADS_ELSEWHERE.fullmatch(name)}
        try:
            with self._errors.open("w") as errors:
                self._process = subprocess.Popen(  # noqa: S603 - the interpreter that its user has named
                    [_absolute(python), "-m", HOSTED, package, str(self.folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=kept | OFFLINE | home,
                    cwd=HERE,
                    text=True,
                    encoding="utf-8",
                )
        except OSError as error:
            raise PackageError(f"{package}: {python}: {error.strerror}; is it the python that has {package}?") from None
        threading.Thread(target=self._read, daemon=True).start()
        atexit.register(self.end)

    def store(self) -> Store:
        """Return a name for a new store."""
        return Store(self, str(next(self._numbers)))

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended, and its stores are lost."""
        return self._process.poll() is not None

    async def ask(self, op: str, **request: Any) -> Any:
        """Return the reply to a request, in which stores go by their names.

        Raises MemoryFault when the package fails, once the process has ended, and for a store of another process.
        """
        number, future = next(self._numbers), Future[Any]()
        asked = {name: self._name_of(value) if isinstance(value, Store) else value for name, value in request.items()}
        self._waiting[number] = future, request
        drop = [self.left.popleft() for _ in range(len(self.left))]
        line = json.dumps({"id": number, "op": op, "drop": drop, **asked}) + "\n"
        await asyncio.shield(asyncio.to_thread(self._send, line))
        return await asyncio.wrap_future(future)

    def reach(self) -> None:
        """Have the package loaded and connected to its database.

        Raises PackageError, and ends the process, where that fails.
        """
        number, future = next(self._numbers), Future[Any]()
        self._waiting[number] = future, {}
        self._send(json.dumps({"id": number, "op": "reach"}) + "\n")
        try:
            future.result(SECONDS_TO_REACH)
        except (MemoryFault, TimeoutError) as error:
            self.end()
            why = str(error) or f"{self.package}: no answer within {SECONDS_TO_REACH:.0f} s"
            is_loaded = "ModuleNotFoundError" not in why
            variable = database_variable if self.package in DATABASES and is_loaded else python_variable
            raise PackageError(f"backend: {why}; is {variable(self.package)} right?") from None

    def end(self) -> None:
        """End the process, and remove what it has kept."""
        with suppress(OSError, subprocess.TimeoutExpired):
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.wait(SECONDS_TO_END)
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _name_of(self, store: Store) -> str:
        if store.process is not self:
            raise MemoryFault(f"{self.package}: the process that kept this memory has ended, and the memory with it")
        return store.name

    def _send(self, line: str) -> None:
        stdin = self._process.stdin
        try:
            with self._sending:
                if stdin is not None:
                    stdin.write(line)
                    stdin.flush()
        except (OSError, ValueError):  # ValueError where our own end has closed it
            self._fail_all()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._settle(json.loads(line))
        with suppress(subprocess.TimeoutExpired):  # so that who hears of the end finds it ended
            self._process.wait(SECONDS_TO_END)
        self._fail_all()

    def _settle(self, answer: dict[str, Any]) -> None:
        future, _ = self._waiting.pop(answer["id"], (None, None))
        if future is None or not future.set_running_or_notify_cancel():
            return
        if "error" in answer:
            future.set_exception(MemoryFault(f"{self.package}: {answer['error']}"))
        else:
            future.set_result(answer["reply"])

    def _fail_all(self) -> None:
        printed = ""
        with suppress(FileNotFoundError):  # where our own end has removed it
            printed = self._errors.read_text(encoding="utf-8", errors="replace").strip()
        what = f"{self.package}: its process ended: {printed[-LAST_CHARACTERS:]}"
        while self._waiting:
            _, (future, _) = self._waiting.popitem()
            if future.set_running_or_notify_cancel():
                future.set_exception(MemoryFault(what))


def python_variable(package: str) -> str:
    """Return the environment variable that names a package's interpreter."""
    return f"MNEMOTUNE_{_in_capitals(package)}_PYTHON"


def database_variable(package: str) -> str:
    """Return the environment variable that names a package's database."""
    return f"MNEMOTUNE_{_in_capitals(package)}_DATABASE"


def python_of(package: str) -> str:
    """Return the interpreter that has a package: the one that is named, else our own. Raises PackageError without."""
    variable = python_variable(package)
    if named := os.environ.get(variable):
        return named
    if has_extra(package):
        return sys.executable
    extra = "" if package in NO_EXTRAS else f"pip install 'mnemotune[{package}]', or "
    raise PackageError(
        f"backend: {package} is not installed: {extra}install it into an environment of its own and set {variable} "
        "to that environment's python"
    )


def process_of(package: str) -> Process:
    """Return the process of a package. Raises PackageError where no interpreter or no database of its own is there."""
    python, variable = python_of(package), database_variable(package)
    if package in DATABASES and not os.environ.get(variable):
        raise PackageError(f"backend: {package} keeps its memories in PostgreSQL: set {variable} to a database's URL")
    return _started(package, python, os.environ.get(variable))


_running: dict[tuple[str, str, str | None, int], Process] = {}


def _started(package: str, python: str, database: str | None) -> Process:
    """Return a process that runs; another is started where it has ended, and in a fork, which must not share pipes."""
    key = package, python, database, os.getpid()
    before = _running.get(key)
    if before is None or before.ended:
        if before is not None:
            before.end()
        begun = Process(package, python)
        begun.reach()
        _running[key] = begun
    return _running[key]


def _in_capitals(package: str) -> str:
    return package.upper().replace("-", "_")


def _absolute(python: str) -> str:
    return str(Path(python).absolute()) if os.sep in python else python
