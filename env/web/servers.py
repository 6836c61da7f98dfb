"""The servers of web apps: a place leases one alone, which begins with the task's exact state."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import aiohttp

from ...data.web.server import APPS, SHARED, AppServer, app_names
from ...data.web.task import WebTask
from ...data.web.verifier import verify
from ..outside import OutsideFault

MOST_IDLE = 8
"""Servers that wait for the next place."""
START_S = 20.0
"""Until a checkout's server listens."""
VERIFY_S = 30.0
"""Of a checkout's verifier."""
_SERVED = {"index.html", "server.py", "js", "css", "assets"}
"""What an app of a checkout consists of; its verifiers and lists of tasks are none of it."""
_PASSED_ON = ("PATH", "SYSTEMROOT", "LANG", "LC_ALL", "TMPDIR", "TEMP")
"""The variables that a checkout's code sees: no key is among them."""


class Server(Protocol):
    """One app's server."""

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""

    async def begin(self, task: WebTask) -> None:
        """Set the state to the one before the task."""

    async def verdict(self, task: WebTask) -> tuple[bool, str]:
        """Tell whether the task is done by the state as it is now, and why. Raises OutsideFault."""

    async def aclose(self) -> None:
        """Stop serving."""


class Servers:
    """The servers of a process; one that was given back serves the next task of its app."""

    def __init__(self) -> None:
        """Start none yet."""
        self._idle: list[tuple[str, Server]] = []
        self._is_closed = False

    @classmethod
    async def start(cls) -> Servers:
        """Return a pool of servers."""
        return cls()

    @asynccontextmanager
    async def lease(self, task: WebTask) -> AsyncIterator[Server]:
        """Lend a server that is as it is before the task. Raises OutsideFault."""
        place = next((place for place, (app, _) in enumerate(self._idle) if app == task.app), None)
        server = await _started(task.app) if place is None else self._idle.pop(place)[1]
        try:
            await server.begin(task)
            yield server
        except BaseException:
            await server.aclose()
            raise
        self._idle.append((task.app, server))
        while len(self._idle) > (0 if self._is_closed else MOST_IDLE):
            await self._idle.pop(0)[1].aclose()

    async def aclose(self) -> None:
        """Stop all servers, those that are lent once they are given back."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop()[1].aclose()


async def _started(app: str) -> Server:
    if _is_foreign(app):
        return await ForeignServer.start(Path(app))
    return OwnServer(AppServer(app))


def _is_foreign(app: str) -> bool:
    return app not in app_names() and (Path(app) / "server.py").is_file()


class OwnServer(Server):
    """The server of an app that ships, or of a folder without one, in threads of this process."""

    def __init__(self, server: AppServer) -> None:
        """Serve with this one."""
        self._server = server

    @property
    def url(self) -> str:
        """Its address."""
        return self._server.url

    async def begin(self, task: WebTask) -> None:
        """Set the state."""
        self._server.begin(task.state)

    async def verdict(self, task: WebTask) -> tuple[bool, str]:
        """Look at the state."""
        return verify(task.verify, task.state, self._server.state)

    async def aclose(self) -> None:
        """Stop serving."""
        await asyncio.to_thread(self._server.close)


class ForeignServer(Server):
    """The server of a checkout's app: its own ``server.py``, in a process of its own."""

    def __init__(self, app: Path, process: asyncio.subprocess.Process, port: int) -> None:
        """Speak to this process."""
        self._app, self._process, self._port = app, process, port

    @classmethod
    async def start(cls, app: Path) -> ForeignServer:
        """Start an app's server. Raises OutsideFault."""
        process = await _foreign("serve", str(app / "server.py"))
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            async with asyncio.timeout(START_S):
                return cls(app, process, int(await process.stdout.readline()))
        except (ValueError, TimeoutError):
            await _end(process)
            raise OutsideFault(f"{app}: its server.py does not listen: run it to see why") from None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    async def begin(self, task: WebTask) -> None:
        """Go back to the state that the app has brought along. Raises OutsideFault."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=START_S)) as session,
                session.post(f"{self.url}/api/reset") as response,
            ):
                response.raise_for_status()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OutsideFault(f"{self._app}: its server does not go back to its first state: {error!r}") from None

    async def verdict(self, task: WebTask) -> tuple[bool, str]:
        """Run the task's verifier."""
        process = await _foreign("verify", str(self._app / task.verify), self.url)
        try:
            async with asyncio.timeout(VERIFY_S):
                assert process.stdout is not None  # noqa: S101 - it is a pipe
                said = await process.stdout.read()
            solved, why = json.loads(said.splitlines()[-1])
            return bool(solved), str(why).replace(self.url, "")
        except (ValueError, IndexError, TimeoutError):
            raise OutsideFault(f"{task.id}: {task.verify} gives no verdict; run it to see why") from None
        finally:
            await _end(process)

    async def aclose(self) -> None:
        """End the process."""
        await _end(self._process)


def digest_of(task: WebTask) -> str:
    """Return a hash of all that a task's app consists of, and of what the task starts from and is verified by."""
    by = (Path(task.app) / task.verify).read_text(encoding="utf-8") if _is_foreign(task.app) else task.verify
    kept = json.dumps([_digest_of_app(task.app), task.state, by], sort_keys=True)
    return hashlib.sha256(kept.encode()).hexdigest()


@lru_cache(maxsize=64)
def _digest_of_app(app: str) -> str:
    """Return a hash of the files that an app serves."""
    folders, foreign = [APPS / app, APPS / SHARED] if app in app_names() else [Path(app)], _is_foreign(app)
    whole = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder)
            if file.is_file() and not (foreign and name.parts[0] not in _SERVED):
                text = file.read_bytes()
                whole.update(f"{name} {len(text)}\n".encode() + text)
    return whole.hexdigest()


async def _foreign(*arguments: str) -> asyncio.subprocess.Process:
    """Start a process that runs a checkout's code; its end is this process's, at the latest."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(Path(__file__).with_name("foreign.py")),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process by the end of its standard input, which it listens to."""
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    process.stdin.close()
    try:
        async with asyncio.timeout(START_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
