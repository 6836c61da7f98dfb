"""1. Nothing is left of containers that were closed, cancelled or left behind; 2. what is missing is said in a line."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest

from mnemotune.env.outside import Course, Outside, OutsideFault, OutsideSilent, Place
from mnemotune.env.swe.container import Image, Limits
from mnemotune.env.swe.engine import ENGINE, OWNER, REPOSITORY, Engine, base_image
from mnemotune.env.swe.owner import owner
from mnemotune.policies.lm.cache import ResponseCache

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
KINDS = (
    ("application/vnd.docker.container.image.v1+json", "1"),
    ("application/vnd.docker.image.rootfs.diff.tar.gzip", "2"),
)
PLAYING = """
import asyncio, sys
from mnemotune.env.outside import Outside
from mnemotune.env.swe.track import SweTrack
from mnemotune.policies.prompts import Templates

async def play(track, task, outside):
    desk = track.desk(task, outside)
    for step in track.steps(task):
        await desk.do(step, {slot.check: step.right[slot.name] for slot in step.slots})
        print("a step is done", flush=True)
    await desk.reward()

async def main():
    track, outside = SweTrack(Templates.bundled()), Outside()
    tasks = track.load("repairs")[:6]
    await asyncio.gather(*(play(track, task, outside) for task in tasks))

print("it begins", flush=True)
asyncio.run(main())
"""


def ours(label: str = OWNER) -> Sequence[dict[str, str]]:
    client = docker.from_env()
    try:
        found: Sequence[dict[str, str]] = client.api.containers(all=True, filters={"label": label})
        return found
    finally:
        client.close()


def course(outside: Outside, name: str, limits: Limits | None = None) -> Course:
    async def opened() -> Place:
        engine = await outside.shared("docker", Engine.start)
        return await engine.open(base_image(), {"name": name}, limits or Limits())

    return Course(outside, name, opened)


@pytest.mark.usefixtures("engine")
async def test_sixteen_side_by_side_leave_nothing() -> None:
    outside = Outside()
    courses = [course(outside, f"course {number}") for number in range(16)]
    seen = await asyncio.gather(*(each.act("cat name") for each in courses))
    assert seen == [f"course {number}" for number in range(16)]
    mine = [one for one in ours() if one["Labels"][OWNER] == owner()]
    assert len(mine) == 16
    await courses[0].aclose()
    assert len([one for one in ours() if one["Labels"][OWNER] == owner()]) == 15
    await outside.aclose()
    assert [one for one in ours() if one["Labels"][OWNER] == owner()] == []


@pytest.mark.usefixtures("engine")
async def test_one_that_is_no_longer_waited_for_is_removed() -> None:
    engine = await Engine.start()
    for wait in (0.0, 0.02, 0.1, 0.2):
        opening = asyncio.ensure_future(engine.open(base_image(), {}, Limits()))
        await asyncio.sleep(wait)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    outside = Outside()
    left = course(outside, "left in the middle")
    acting = asyncio.ensure_future(left.act("sleep 20"))
    await asyncio.sleep(1)
    began = time.monotonic()
    acting.cancel()
    await asyncio.gather(acting, return_exceptions=True)
    await outside.aclose()
    assert time.monotonic() - began < 15
    await engine.aclose()
    await engine.aclose()
    assert [one for one in ours() if one["Labels"][OWNER] == owner()] == []


@pytest.mark.usefixtures("engine")
async def test_what_was_seen_is_seen_again_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = Outside(partial(ResponseCache, tmp_path / "seen.db"))
    first = [await course(outside, "a").act(action) for action in ("ls", "date")]
    await outside.aclose()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    again = Outside(partial(ResponseCache, tmp_path / "seen.db"))
    assert [await course(again, "a").act(action) for action in ("ls", "date")] == first
    with pytest.raises(OutsideSilent, match=r"apt-get install docker\.io.*DOCKER_HOST"):
        await course(again, "a").act("something new")
    await again.aclose()


@pytest.mark.usefixtures("engine")
@pytest.mark.exhaustive("moment")
@pytest.mark.parametrize("moment", range(10))
async def test_after_a_kill_at_any_moment_the_next_start_leaves_nothing(moment: int) -> None:
    run = subprocess.Popen([sys.executable, "-c", PLAYING], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert run.stdout is not None
    run.stdout.readline()
    rng = random.Random(moment)
    for _ in range(rng.randrange(12)):
        run.stdout.readline()
    await asyncio.sleep(rng.random() * 1.5)
    label = owner(run.pid)
    run.kill()
    run.wait()
    run.stdout.close()
    processes = [p for one in ours(f"{OWNER}={label}") for p in _processes(one["Id"])]
    engine = await Engine.start()
    assert list(ours(f"{OWNER}={label}")) == []
    assert _running(processes) == []
    client = docker.from_env()
    assert [image.tags for image in client.images.list(filters={"dangling": True, "label": REPOSITORY})] == []
    client.close()
    await engine.aclose()


def _running(processes: Sequence[str]) -> list[str]:
    return [number for number in processes if Path(f"/proc/{number}").exists()]


def _processes(container: str) -> list[str]:
    client = docker.from_env()
    try:
        return [line[0] for line in client.api.top(container, ps_args="-o pid")["Processes"] or ()]
    except docker.errors.APIError:  # it has not been started, or not to its end
        return []
    finally:
        client.close()


@pytest.mark.usefixtures("engine")
async def test_what_others_use_is_left_alone() -> None:
    engine, other = await Engine.start(), await Engine.start()
    mine = await engine.open(base_image(), {}, Limits())
    await other.aclose()
    assert await mine.act("echo here") == "here"
    (container,) = [one for one in ours(ENGINE) if one["Id"] == mine.id]
    assert container["Labels"][OWNER] == owner()
    await engine.aclose()


@pytest.mark.usefixtures("engine")
async def test_many_can_start_at_once() -> None:
    """Each looks for what was left behind, which the engine lets one alone do at a time."""
    every = await asyncio.gather(*(Engine.start() for _ in range(24)))
    for engine in every:
        await engine.aclose()


@pytest.mark.usefixtures("engine")
async def test_what_cannot_be_opened_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = await Engine.start()
    with pytest.raises(OutsideFault, match=r"files could not be put into a container: .*Error") as caught:
        await engine.open(base_image(), {"a": "", "a/b": ""}, Limits())
    assert "\n" not in str(caught.value)
    (tmp_path / "nowhere").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(OutsideFault, match=r"no container can be opened: .*nowhere"):
        await engine.open(Image("mnemotune-base:of-another-digest"), {}, Limits())
    await engine.aclose()
    assert [one for one in ours() if one["Labels"][OWNER] == owner()] == []


@pytest.mark.usefixtures("engine")
async def test_an_image_that_no_registry_has_is_named() -> None:
    engine = await Engine.start()
    with pytest.raises((OutsideFault, OutsideSilent), match="image nobody/has-this:1"):
        await engine.open(Image("nobody/has-this:1", "/", made=False), {}, Limits())
    await engine.aclose()


class HalfRegistry(BaseHTTPRequestHandler):
    """Knows an image of which it has nothing but the manifest."""

    PARTS = [{"mediaType": kind, "size": 9, "digest": f"sha256:{number * 64}"} for kind, number in KINDS]
    MANIFEST = {"schemaVersion": 2, "mediaType": MANIFEST, "config": PARTS[0], "layers": PARTS[1:]}

    def do_GET(self) -> None:
        known = self.path == "/v2/" or "/manifests/" in self.path
        content = json.dumps(self.MANIFEST).encode() if known else b"{}"
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", MANIFEST)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(content).hexdigest()}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.usefixtures("engine")
async def test_an_image_that_breaks_off_on_its_way_keeps_the_run_waiting() -> None:
    if not os.environ.get("DOCKER_HOST", "unix:").startswith("unix:"):
        pytest.skip("the engine at DOCKER_HOST is another machine's, which has no registry here")
    with ThreadingHTTPServer(("127.0.0.1", 0), HalfRegistry) as registry:
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        engine = await Engine.start()
        for _ in range(2):
            with pytest.raises(OutsideSilent, match=r"half:1 is not here and cannot be pulled \(.+\): docker load it"):
                await engine.open(Image(f"127.0.0.1:{registry.server_port}/half:1", "/", made=False), {}, Limits())
        await engine.aclose()
        registry.shutdown()


@pytest.fixture
async def published(engine: str) -> AsyncIterator[Image]:
    """An image that is not the base, which containers are opened from as they are from what others have published."""
    opened = await Engine.start()
    await (await opened.open(base_image(), {}, Limits())).aclose()
    await opened.aclose()
    client = docker.from_env()
    client.images.get(base_image().name).tag("mnemotune-test", "published")
    yield Image("mnemotune-test:published", "/tmp", made=False)  # noqa: S108
    client.images.remove("mnemotune-test:published")
    client.close()


async def test_an_image_of_another_making_is_used_with_its_own_user(published: Image) -> None:
    engine = await Engine.start()
    container = await engine.open(published, {}, Limits())
    assert await container.act("id -u; pwd; echo x > a; cat a") == "0\n/tmp\nx"
    assert await container.act("sleep 60 & echo b") == "b"
    assert await container.act("grep CapEff /proc/self/status") == "CapEff:\t0000000000000000"
    for number in range(60):  # what each kills at its end may be the first process's own
        assert await container.act(f"echo {number}") == str(number)
    await engine.aclose()
    assert container.id not in [one["Id"] for one in ours()]


async def test_a_container_of_another_making_outlives_commands_that_leave_no_room_for_a_process(
    published: Image,
) -> None:
    engine = await Engine.start()
    container = await engine.open(published, {}, Limits(seconds=3, processes=32))
    bomb = """import os, time
def fill():
    while True:
        try: os.fork() or (time.sleep(60), os._exit(0))
        except OSError: return
ends_all = %r
if ends_all: os.kill(-1, 9)
while True:
    fill()
    for one in filter(str.isdecimal, os.listdir("/proc")):
        try: of_first = open(f"/proc/{one}/stat").read().split(" ")[1:4:2] == ["(sleep)", "1"]
        except OSError: continue
        if of_first: os.kill(int(one), 9); fill()
"""
    for ends_all in (True, False):
        assert "[killed" in await container.act(f"python3 -c '{bomb % ends_all}'")
        assert await container.act("echo still here") == "still here"
    await engine.aclose()


async def test_where_no_engine_answers_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    with pytest.raises(OutsideSilent) as caught:
        await Engine.start()
    assert "\n" not in str(caught.value)
    assert "apt-get install docker.io" in str(caught.value)
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(OutsideSilent, match=r"pip install 'mnemotune\[swe\]'"):
        await Engine.start()


def test_importing_the_track_does_not_import_docker() -> None:
    script = "import mnemotune.env.tracks, sys; print('docker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "False"
