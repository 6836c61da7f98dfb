"""The engine of containers, by the ``docker`` library: bases are made, containers are opened, and leftovers removed."""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from ..outside import MOST_OPEN, OutsideFault, OutsideSilent
from .base import ENVIRONMENT, WORKPLACE, base_digest, write_base
from .container import Container, Image, Limits, Opened, first_process, settings, unpacking
from .owner import is_gone, owner
from .shell import Shell

T = TypeVar("T")
REPOSITORY = "mnemotune-base"
OWNER, ENGINE = "mnemotune.owner", "mnemotune.engine"
"""Labels of containers: the process, and what opened them there."""
CALL_SECONDS = 120
"""The longest wait for a reply of the engine's."""
CLEARING_TRIES, CLEARING_SECONDS = 50, 0.1
"""How often containers are removed that are still there, and the wait after each."""
GET_ENGINE = "install and start one (apt-get install docker.io), or set DOCKER_HOST to one that runs"
NO_TLS = "no command would answer; forward its socket by ssh -L, and set DOCKER_HOST to that (unix:///...)"
GET_PACKAGE = "containers need the package docker: pip install 'mnemotune[swe]'"


def base_image() -> Image:
    """Return the base that is made on this machine. Raises OutsideSilent where none can be made."""
    return Image(f"{REPOSITORY}:{base_digest()}")


class Engine:
    """Opens containers, each call in a thread of a few. What it has opened is gone once it is closed."""

    def __init__(self, client: Any) -> None:
        """Speak to the engine through a client of its API."""
        self._api = client.api
        self._client = client
        self._name = uuid.uuid4().hex
        self._threads = ThreadPoolExecutor(MOST_OPEN + 2, thread_name_prefix="containers")
        self._images = dict[str, asyncio.Lock]()
        self._known = set[str]()

    @classmethod
    async def start(cls) -> Engine:
        """Connect, and remove what processes have left behind that are gone. Raises OutsideSilent."""
        engine = cls(await asyncio.to_thread(_connected))
        try:
            await engine.call(engine.reap)
        except BaseException:
            await engine.aclose()
            raise
        return engine

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call something that waits for the engine. Raises OutsideFault and OutsideSilent."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, partial(_explained, function, *arguments)
        )

    async def open(self, image: Image, files: Mapping[str, str], limits: Limits) -> Container:
        """Start a container that has these files in its folder. Raises OutsideFault and OutsideSilent."""
        async with self._images.setdefault(image.name, asyncio.Lock()):
            if image.name not in self._known:
                await self.call(self._make_base if image.made else self._pull, image.name)
                self._known.add(image.name)
        starting = asyncio.ensure_future(self.call(self._start, image, files, limits))
        try:
            return Container(self, await asyncio.shield(starting), limits)
        except asyncio.CancelledError:
            starting.add_done_callback(self._drop)
            raise

    async def remove(self, opened: Opened) -> None:
        """End and remove a container, if it is there; where the engine is silent, the next start does it."""
        with suppress(OutsideFault, OutsideSilent, RuntimeError):  # RuntimeError: closed, which has removed it
            await self.call(self._close, opened)

    async def aclose(self) -> None:
        """End and remove every container that was opened here. Closing twice does no harm."""
        await asyncio.to_thread(self._threads.shutdown, wait=True)
        with suppress(OutsideFault, OutsideSilent):
            await asyncio.to_thread(_explained, self._sweep)
        self._client.close()

    def reap(self) -> None:
        """Remove the containers whose owners are gone, and bases that lost their name."""
        self._clear(OWNER, lambda labels: is_gone(labels[OWNER]))
        with _unless_another_does():
            self._api.prune_images(filters={"dangling": True, "label": REPOSITORY})

    def _start(self, image: Image, files: Mapping[str, str], limits: Limits) -> Opened:
        labels = {OWNER: owner(), ENGINE: self._name}
        config = {
            "Image": image.name,
            "Labels": labels,
            "HostConfig": settings(image, limits),
            **first_process(image, limits),
        }
        container: str = self._api.create_container_from_config(config)["Id"]
        try:
            self._api.start(container)
            if files:
                made = self._api.exec_create(container, unpacking(files))["Id"]
                said = self._api.exec_start(made)
                if self._api.exec_inspect(made)["ExitCode"]:
                    reason = said.decode(errors="replace").strip().rpartition("\n")[2]
                    raise OutsideFault(f"files could not be put into a container: {reason}")
            return Opened(container, Shell(self._api, container))
        except BaseException:
            self._remove(container)
            raise

    def _drop(self, starting: asyncio.Future[Opened]) -> None:
        """Remove a container that nobody waits for any more."""
        if not starting.cancelled() and starting.exception() is None:
            with suppress(RuntimeError):  # closed meanwhile: that removes it
                self._threads.submit(_explained, self._close, starting.result())

    def _close(self, opened: Opened) -> None:
        self._remove(opened.id)
        opened.shell.close()

    def _remove(self, container: str) -> None:
        with _unless_another_does():
            self._api.remove_container(container, force=True, v=True)

    def _sweep(self) -> None:
        """Remove what was opened here, and what was still being made for an owner that was gone at the start."""
        self._clear(f"{ENGINE}={self._name}", lambda _: True)
        self.reap()

    def _clear(self, label: str, whether: Callable[[Mapping[str, str]], bool]) -> None:
        """Remove containers until none is left: one that another process is removing stays for a while."""
        for _ in range(CLEARING_TRIES):
            every = self._api.containers(all=True, filters={"label": label})
            left = [container for container in every if whether(container["Labels"])]
            if not left:
                return
            for container in left:
                self._remove(container["Id"])
            time.sleep(CLEARING_SECONDS)

    def _make_base(self, name: str) -> None:
        """Make the base, once for all processes of the machine."""
        if self._is_here(name):
            return
        with FileLock(Path(tempfile.gettempdir()) / f"{name.replace(':', '-')}.lock", mode=0o666):
            if self._is_here(name):
                return
            repository, _, tag = name.partition(":")
            with tempfile.NamedTemporaryFile(suffix=".tar") as file:
                write_base(file)
                file.flush()
                variables = [f"ENV {key}={value}" for key, value in ENVIRONMENT.items()]
                changes = [*variables, f"LABEL {REPOSITORY}={tag}", f"WORKDIR {WORKPLACE}"]
                said = self._api.import_image(file.name, repository, tag, changes=changes)
            if not self._is_here(name):
                raise OutsideFault(f"the base of containers could not be imported: {str(said)[-300:]}")

    def _pull(self, name: str) -> None:
        import docker.errors

        if self._is_here(name):
            return
        named = ":" in name.rpartition("/")[2]
        try:
            said = self._api.pull(name, tag=None if named else "latest")
        except docker.errors.NotFound as error:
            raise OutsideFault(f"image {name}: there is none of this name ({error.explanation})") from error
        except docker.errors.APIError as error:
            raise _cannot_pull(name, _reason(error)) from error
        if not self._is_here(name):  # what fails on the way is said in the reply, which is one of success
            raise _cannot_pull(name, str(said).strip().splitlines()[-1][:300])

    def _is_here(self, name: str) -> bool:
        import docker.errors

        try:
            self._api.inspect_image(name)
        except docker.errors.ImageNotFound:
            return False
        return True


def _cannot_pull(name: str, reason: str) -> OutsideSilent:
    return OutsideSilent(f"image {name} is not here and cannot be pulled ({reason}): docker load it")


def _connected() -> Any:
    """Return a client of an engine that answers. Raises OutsideSilent."""
    try:
        import docker
    except ImportError:
        raise OutsideSilent(GET_PACKAGE) from None
    try:
        client = docker.from_env(timeout=CALL_SECONDS, max_pool_size=MOST_OPEN + 2)
        client.ping()
    except docker.errors.DockerException as error:
        raise OutsideSilent(f"no engine of containers answers ({_reason(error)}): {GET_ENGINE}") from error
    if client.api.base_url.startswith("https:"):
        client.close()
        raise OutsideSilent(f"the engine of containers at {client.api.base_url} is reached over TLS: {NO_TLS}")
    return client


def _explained(function: Callable[..., T], *arguments: Any) -> T:
    with _explaining():
        return function(*arguments)


@contextmanager
def _unless_another_does() -> Iterator[None]:
    """Do something that need not be done where another process has done it, or is about to."""
    import docker.errors

    try:
        yield
    except docker.errors.APIError as error:
        if error.status_code not in {404, 409}:
            raise


@contextmanager
def _explaining() -> Iterator[None]:
    """Turn what the library raises into what became of the engine, or of one container."""
    import docker.errors
    import requests
    import urllib3

    lost = (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, docker.errors.DockerException)
    try:
        yield
    except (docker.errors.APIError, docker.errors.InvalidArgument, requests.exceptions.ReadTimeout) as error:
        raise OutsideFault(f"the engine of containers: {_reason(error)}") from error
    except (*lost, ConnectionError) as error:
        raise OutsideSilent(f"the engine of containers does not answer ({_reason(error)}): {GET_ENGINE}") from error
    except OSError as error:
        raise OutsideFault(f"no container can be opened: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    lines = str(getattr(error, "explanation", None) or error).splitlines()
    return lines[0][:300] if lines else type(error).__name__
