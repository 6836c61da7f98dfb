"""A container: a place where one episode runs shell commands, which nothing gets out of."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from ...data.values import Values
from ..outside import OutsideFault, Place
from .base import MADE, USER_ID, WORKPLACE
from .observation import seen
from .shell import Shell

T = TypeVar("T")
VERSION = 1
"""Of what a command gives to see: another way of it has another number, and another record."""
MOST_ARGUMENT = 100_000
"""Bytes of one argument of a program; Linux takes 131,072."""
GRACE_SECONDS = 30
"""After a command's own time; then its container is ended."""


@dataclass(frozen=True, slots=True)
class Limits(Values):
    """What a container may take."""

    seconds: int = 60
    """Of one command: far more than it needs, as a machine with much to do is slow."""
    output_bytes: int = 1_000_000
    """Of one command; it reads no more than that."""
    memory_mib: int = 256
    processes: int = 64
    disk_mib: int = 32
    """Of the working folder, and as much beside it."""
    cores: float = 1.0
    life_seconds: int = 4 * 3600
    """After that it ends by itself, whatever became of who has started it."""


@dataclass(frozen=True, slots=True)
class Image(Values):
    """What a container is made from."""

    name: str
    folder: str = WORKPLACE
    """Where commands run."""
    made: bool = True
    """Whether it is the base that is made on the machine; else its own user writes wherever that user may."""


# The first process: it waits for the end of its life, and ends all others at a signal. What is left to it is forgotten
# at once, so that none of the processes that a container may have is taken up by one that has ended.
LIFE = """import contextlib, os, signal, sys, time
def end_others(*_):
    with contextlib.suppress(ProcessLookupError): os.kill(-1, signal.SIGKILL)
signal.signal(signal.SIGUSR1, end_others)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
time.sleep(int(sys.argv[1]))
"""
# The same in a shell. What it starts, a command's end may kill: an empty answer of `date` is none. Where it can start
# nothing, as there is no room, `command eval` keeps the shell from ending.
LIFE_OF_OTHERS = """trap 'kill -s KILL -- -1' USR1
until now=$(date +%s) && [ "$now" ]; do :; done
end=$((now + $1))
while [ -z "$now" ] || [ "$now" -lt "$end" ]; do command eval 'sleep 60 & wait'; command eval 'now=$(date +%s)'; done
"""
# What stands in a file's place goes first, whatever it is: no link is written through.
UNPACK = f"""import base64, json, os, sys, zlib
def is_folder(path): return os.path.isdir(path) and not os.path.islink(path)
def make_open(folder): os.access(folder, os.R_OK | os.W_OK | os.X_OK) or os.chmod(folder, 0o755)
def remove(path):
    if is_folder(path):
        make_open(path)
        for name in os.listdir(path): remove(path + "/" + name)
        os.rmdir(path)
    elif os.path.lexists(path): os.unlink(path)
def clear(path):
    make_open(".")
    for place in [place for place, letter in enumerate(path) if letter == "/"]:
        if not is_folder(path[:place]): return remove(path[:place])
        make_open(path[:place])
    remove(path)
files = json.loads(zlib.decompress(base64.b64decode("".join(sys.argv[1:]))))
for path in files: clear(path)
for path, text in files.items():
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as file: file.write(text)
    os.utime(path, ({MADE}, {MADE}))
"""


def unpacking(files: Mapping[str, str]) -> list[str]:
    """Return the command, word by word, that writes files below the folder that it runs in."""
    packed = base64.b64encode(zlib.compress(json.dumps(dict(files)).encode(), 9)).decode()
    parts = [packed[place : place + MOST_ARGUMENT] for place in range(0, len(packed), MOST_ARGUMENT)]
    return ["python3", "-ISc", UNPACK, *parts]


def settings(image: Image, limits: Limits) -> dict[str, Any]:
    """Return how a container's host is to hold it, as the engine's API has it."""
    tmpfs = f"size={limits.disk_mib}m,nosuid,nodev"
    held: dict[str, Any] = {
        "NetworkMode": "none",
        "IpcMode": "none",
        "AutoRemove": True,
        "LogConfig": {"Type": "none"},
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Memory": limits.memory_mib << 20,
        "MemorySwap": limits.memory_mib << 20,
        "PidsLimit": limits.processes,
        "NanoCpus": int(limits.cores * 1e9),
    }
    if image.made:
        mine = f"{tmpfs},exec,mode=755,uid={USER_ID},gid={USER_ID}"
        held |= {"ReadonlyRootfs": True, "Tmpfs": {image.folder: mine, "/tmp": f"{tmpfs},mode=1777"}}  # noqa: S108
    return held


def first_process(image: Image, limits: Limits) -> dict[str, Any]:
    """Return what a container runs as long as it lives, as the engine's API has it."""
    life = ["python3", "-ISc", LIFE] if image.made else ["sh", "-c", LIFE_OF_OTHERS, "sh"]
    process = {"WorkingDir": image.folder, "Entrypoint": life, "Cmd": [str(limits.life_seconds)]}
    return process | {"User": f"{USER_ID}:{USER_ID}"} if image.made else process


@dataclass(frozen=True, slots=True)
class Opened:
    """A container that the engine has started, and a shell in it."""

    id: str
    shell: Shell


class Keeper(Protocol):
    """What has opened a container."""

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call something that waits for the engine. Raises OutsideFault and OutsideSilent."""

    async def remove(self, opened: Opened) -> None:
        """End and remove a container, if it is there."""


class Container(Place):
    """One container that runs. Its commands are run one after another."""

    def __init__(self, keeper: Keeper, opened: Opened, limits: Limits) -> None:
        """Run commands in what the keeper has opened."""
        self._keeper, self._opened, self._limits = keeper, opened, limits

    @property
    def id(self) -> str:
        """The engine's name for it."""
        return self._opened.id

    async def act(self, action: str) -> str:
        """Run a shell command; return its output as ``seen`` has it. Raises OutsideFault and OutsideSilent."""
        if len(action.encode("utf-8", "surrogatepass")) > MOST_ARGUMENT:
            return seen(action, b"sh: argument list too long", status=126, most=MOST_ARGUMENT, now=datetime.now(UTC))
        limits = self._limits
        run = partial(self._opened.shell.run, action, seconds=limits.seconds, most=limits.output_bytes + 1)
        running = asyncio.ensure_future(self._keeper.call(run))
        try:
            done, _ = await asyncio.wait({running}, timeout=limits.seconds + GRACE_SECONDS)
        finally:
            running.cancel()
        if not done:
            await self.aclose()
            raise OutsideFault(f"container {self.id[:12]}: {action[:80]!r} did not end when its time was over")
        output, status = running.result()
        return seen(action, output, status=status, most=limits.output_bytes, now=datetime.now(UTC))

    async def aclose(self) -> None:
        """End the container, with whatever runs in it, and remove it."""
        await self._keeper.remove(self._opened)
