"""``mnemotune serve``: the real command, in a process of its own, on a free port."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemotune import EmbeddedModel, LexicalEmbedder, MemoryStore, load_policy

Cli = Callable[..., Any]

PATIENCE_SECONDS = 60.0
CHAT = {"model": "embedded", "messages": [{"role": "user", "content": "I own a small boat. Where shall I go?"}]}


def _hear_ctrl_c() -> None:
    """What a shell starts in the background is deaf to it, and so would be what the tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Server:
    """The command under way, with the processes that it starts in a group of their own, as in a terminal."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mnemotune", "serve", "--port", "0", *(arguments or ("--workers", "1"))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_hear_ctrl_c,
        )
        assert self.process.stderr is not None
        self.told = self.process.stderr.readline()
        found = re.search(r"http://(\S+):(\d+)/v1", self.told)
        assert found is not None, self.told
        self.address = found[1], int(found[2])

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=PATIENCE_SECONDS)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = self.connect()
        connection.request(method, path, None if body is None else json.dumps(body))
        reply = connection.getresponse()
        told = reply.status, json.loads(reply.read())
        connection.close()
        return told

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal tells every process of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> tuple[int, str, str]:
        """Return the exit code, and what was said after the first line."""
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err


Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[Server] = []

    def make(*arguments: str) -> Server:
        started.append(Server(*arguments))
        return started[-1]

    yield make
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_answers_until_it_is_told_to_end(serve: Serve, number: signal.Signals) -> None:
    server = serve()
    url = f"http://127.0.0.1:{server.address[1]}/v1"
    assert server.told == f"the embedded model is served at {url} (any key will do; Ctrl-C ends it)\n"
    assert server.ask("GET", "/health") == (200, {"status": "ok", "requests": 0})
    status, reply = server.ask("POST", "/v1/chat/completions", CHAT)
    assert status == 200
    assert "you own a small boat" in reply["choices"][0]["message"]["content"]
    status, reply = server.ask("POST", "/v1/embeddings", {"model": "lexical", "input": "a boat"})
    assert (status, len(reply["data"])) == (200, 1)
    if number == signal.SIGINT:
        server.interrupt()
    else:
        server.process.send_signal(number)
    assert server.ended() == (0, "", "")


def test_ctrl_c_right_after_the_start_is_heard(serve: Serve) -> None:
    server = serve()
    server.interrupt()
    server.interrupt()
    assert server.ended() == (0, "", ""), "also when somebody is in a hurry"


def wait_until_here(server: Server) -> None:
    while server.ask("GET", "/health")[1]["requests"] == 0:
        time.sleep(0.002)


def test_a_request_under_way_is_answered_before_the_server_ends(serve: Serve) -> None:
    """The first request is under way for long, as a process has to be started for it."""
    server = serve()
    connection = server.connect()
    connection.request("POST", "/v1/chat/completions", json.dumps(CHAT))
    wait_until_here(server)
    server.interrupt()
    reply = connection.getresponse()
    assert reply.status == 200
    assert json.loads(reply.read())["choices"]
    assert server.ended() == (0, "", "")


def test_the_limits_are_those_of_the_options(serve: Serve) -> None:
    server = serve("--workers", "1", "--most-requests", "1", "--most-mib", "1")
    large = {**CHAT, "user": "x" * 2**20}
    assert server.ask("POST", "/v1/chat/completions", large)[0] == 413
    connection = server.connect()
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"{")  # the server waits for the rest
    wait_until_here(server)
    assert server.ask("POST", "/v1/chat/completions", CHAT)[0] == 429
    connection.close()


def test_a_policy_s_memory_is_served_in_front_of_another_endpoint_and_outlives_it(serve: Serve, tmp_path: Path) -> None:
    upstream = "http://{}:{}/v1".format(*serve().address)
    given = ["--policy", "rag", "--model", "embedded", "--upstream", upstream, "--store", str(tmp_path / "m.db")]
    for told in (1, 2):
        server = serve(*given, "--user", "ann", "--context-tokens", "100")
        url = "http://{}:{}/v1".format(*server.address)
        whose = "X-Mnemotune-User says whose a call is, ann without it"
        assert server.told == f"memory is served at {url}, in front of {upstream} ({whose}; Ctrl-C ends it)\n"
        status, reply = server.ask("POST", "/v1/chat/completions", CHAT)
        assert (status, reply["model"]) == (200, "embedded")
        server.interrupt()
        assert server.ended() == (0, "", "")
        with MemoryStore(tmp_path / "m.db", load_policy("rag"), EmbeddedModel(), LexicalEmbedder()) as store:
            context = asyncio.run(store.memory("ann").context("boat", tokens=None))
        messages = [message.text for message in context.render()]
        assert "\n".join(messages).count("I own a small boat. Where shall I go?") == told


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--store", "m.db"], "--store: has no effect without --policy; leave it out"),
        (["--policy", "awi", "--workers", "2"], "--workers: has no effect with --policy; leave it out"),
        (["--policy", "awi"], "--model: say which model writes memories, for example `openai:NAME`"),
        (["--policy", "awi", "--model", "elephant"], "--model: 'elephant' is no model"),
        (["--policy", "awj", "--model", "embedded"], "awj: no such file or preset; the nearest is awi"),
    ],
)
def test_options_that_do_not_go_together_are_told(cli: Cli, arguments: list[str], problem: str) -> None:
    assert problem in cli("serve", *arguments).refused()


@pytest.mark.parametrize("arguments", [["serve", "--port", "0", "--upstream", "http://127.0.0.1:9/v1"], ["mcp"]])
def test_a_user_without_an_id_is_told_at_the_start(cli: Cli, arguments: list[str], tmp_path: Path) -> None:
    given = ["--policy", "awi", "--model", "embedded", "--user", " ", "--store", str(tmp_path / "m.db")]
    assert "the user's id is empty" in cli(*arguments, *given).refused()


def test_a_port_that_is_taken_is_told(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = cli("serve", "--port", str(port)).refused()
    assert told.startswith(f"cannot listen on 127.0.0.1, port {port}: ")
    assert "address already in use" in told


def test_a_host_that_is_none_is_told(cli: Cli) -> None:
    assert "cannot listen on 256.0.0.1, port 0: " in cli("serve", "--host", "256.0.0.1", "--port", "0").refused()
