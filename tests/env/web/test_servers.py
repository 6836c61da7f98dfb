"""Servers: 1. a task begins with its exact state, whatever was done before; 2. all processes end with the run, however
it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from browsing import app_task, needs_browser, put, state_of
from mnemotune.data.web.task import WebTask
from mnemotune.data.web.verifier import state_hash
from mnemotune.env.outside import OutsideFault
from mnemotune.env.web.servers import ForeignServer, Servers, digest_of

SERVER = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
first = state = None
class Handler(BaseHTTPRequestHandler):
    def answer(self, code, value):
        self.send_response(code); self.end_headers(); self.wfile.write(json.dumps(value).encode())
    def do_GET(self): self.answer(404 if state is None else 200, state)
    def do_PUT(self):
        global first, state
        state = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        first = first or state
        self.answer(200, {})
    def do_POST(self):
        global state
        state = first
        self.answer(200, {})
port = int(sys.argv[sys.argv.index("--port") + 1])
HTTPServer(("", port), Handler).serve_forever()
"""
VERIFIER = """
import json, os
from urllib.request import urlopen
def verify(server_url):
    state = json.load(urlopen(server_url + "/api/state"))
    return state["done"] is True, f"done is {state['done']} at {server_url} with {sorted(os.environ)}"
"""


@pytest.fixture
def foreign(tmp_path: Path) -> WebTask:
    """A task of an app as a checkout has it."""
    task = app_task(tmp_path, "", state={})
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "verify.py").write_text(VERIFIER)
    return WebTask(task.id, task.group, 1, task.app, "", {}, "verify.py", (), {}, {})


async def test_a_server_that_was_given_back_begins_with_the_next_task_s_state(tmp_path: Path) -> None:
    servers, states = Servers(), [{"done": False, "ä": [1.5, None]}, {"done": False, "other": {}}]
    tasks = [app_task(tmp_path, "", state=state) for state in states]
    urls = set()
    for task in (*tasks, *tasks):
        async with servers.lease(task) as server:
            urls.add(server.url)
            assert state_hash(await state_of(server)) == state_hash(task.state)
            assert (await server.verdict(task))[0] is False
            await put(server, {**task.state, "done": True})
            assert (await server.verdict(task))[0] is True
    assert len(urls) == 1
    await servers.aclose()


async def test_two_places_never_share_a_server(tmp_path: Path) -> None:
    servers, task = Servers(), app_task(tmp_path, "")
    async with servers.lease(task) as first, servers.lease(task) as second:
        assert first.url != second.url
        await put(first, {"done": True})
        assert await state_of(second) == {"done": False}
    await servers.aclose()


async def test_a_checkout_s_server_goes_back_to_the_first_state_and_its_verifier_is_asked(foreign: WebTask) -> None:
    servers = Servers()
    async with servers.lease(foreign) as server:
        assert isinstance(server, ForeignServer)
        assert await state_of(server) is None
        await put(server, {"done": False})
        assert (await server.verdict(foreign))[0] is False
        await put(server, {"done": True})
        solved, why = await server.verdict(foreign)
        assert solved
        assert "KEY" not in why
        assert server.url not in why
    async with servers.lease(foreign) as server:
        assert await state_of(server) == {"done": False}
    await servers.aclose()


async def test_a_server_that_does_not_go_back_to_its_first_state_serves_no_task(foreign: WebTask) -> None:
    server = Path(foreign.app) / "server.py"
    server.write_text(
        SERVER.replace("        state = first\n        self.answer(200, {})", "        self.answer(500, {})")
    )
    servers = Servers()
    with pytest.raises(OutsideFault, match=r"does not go back to its first state: .*500"):
        async with servers.lease(foreign):
            pass
    await servers.aclose()


async def test_a_verifier_that_fails_on_what_the_agent_has_done_is_not_content(foreign: WebTask) -> None:
    servers = Servers()
    async with servers.lease(foreign) as server:
        await put(server, {})
        assert await server.verdict(foreign) == (False, "the verifier failed: KeyError: 'done'")
    await servers.aclose()


@pytest.mark.parametrize("verifier", ["import nothing_of_that_name", "def verify(", VERIFIER])
async def test_a_verifier_that_sees_nothing_and_a_server_that_does_not_start_are_nobody_s_mistake(
    foreign: WebTask, verifier: str
) -> None:
    servers, place = Servers(), Path(foreign.app)
    (place / "verify.py").write_text(verifier)
    async with servers.lease(foreign) as server:
        with pytest.raises(OutsideFault, match=r"small: verify\.py gives no verdict"):
            await server.verdict(foreign)
    await servers.aclose()
    (place / "server.py").write_text("raise SystemExit")
    with pytest.raises(OutsideFault, match=r"its server\.py does not listen"):
        await ForeignServer.start(place)


def test_what_an_app_consists_of_has_another_hash_once_a_file_or_the_task_has_changed(tmp_path: Path) -> None:
    first = app_task(tmp_path / "a", "<p>One")
    other = app_task(tmp_path / "b", "<p>Two")
    again = app_task(tmp_path / "a", "<p>One", state={"done": False, "more": 1})
    assert len({digest_of(first), digest_of(other), digest_of(again)}) == 3
    assert digest_of(first) == digest_of(first)


RUN = """
import asyncio, signal, sys
from dataclasses import replace
from mnemotune.data.web.task import WebTask
from mnemotune.env.outside import Outside
from mnemotune.env.web.action import Action
from mnemotune.env.web.page import WebPage

async def main():
    outside = Outside()
    task = WebTask("t", "g", 1, sys.argv[1], "", {}, "verify.py", (), {}, {})
    page = await WebPage.open(outside, task)
    await page.act(Action("goto").as_json)
    print("open", flush=True)
    if sys.argv[2] == "stays":
        await asyncio.sleep(300)
    if sys.argv[2] == "fails":
        raise RuntimeError("the run ends in the middle")
    await page.aclose()
    await outside.aclose()

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background is deaf to it
asyncio.run(main())
"""


def descendants(pid: int) -> set[int]:
    """Return the processes that a process has started, and that they have."""
    rows = [line.split() for line in subprocess.check_output(["ps", "-eo", "pid,ppid"], text=True).splitlines()[1:]]
    every, newest = set[int](), {pid}
    while newest:
        newest = {int(child) for child, parent in rows if int(parent) in newest} - every
        every |= newest
    return every


def living(pids: set[int]) -> set[int]:
    """Return those of them that have not ended."""
    states = subprocess.run(["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, pids))], capture_output=True, text=True)
    rows = (line.split() for line in states.stdout.splitlines())
    return {int(pid) for pid, state in rows if not state.startswith("Z")}


@needs_browser
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize("end", ["ends", "fails", "SIGINT", "SIGKILL"])
def test_browser_and_servers_end_with_the_run_however_it_ends(tmp_path: Path, foreign: WebTask, end: str) -> None:
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(RUN))
    how = "stays" if end.startswith("SIG") else end
    run = subprocess.Popen(
        [sys.executable, str(script), foreign.app, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    started = set[int]()
    while not run.stdout.readline():  # until the page is open
        assert run.poll() is None
    started = descendants(run.pid)
    if how == "stays":
        assert len(started) > 3
        os.kill(run.pid, signal.Signals[end])
    try:
        run.wait(timeout=60)
    finally:
        run.kill()
    for _ in range(200):
        if not living(started):
            break
        time.sleep(0.1)
    left = living(started)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
