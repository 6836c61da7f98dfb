"""The server of a web app: WebArena-Infinity's contract, and what it does not let through."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.web.server import MOST_BYTES, AppServer, app_names
from mnemotune.data.web.verifier import state_hash

STATE = {"app": "depot", "name": "Umlaut Ä", "parcels": [{"number": "X-1", "fee": None}, {"number": "X-2"}]}
Answer = tuple[int, bytes, dict[str, str]]


@pytest.fixture
def server() -> Iterator[AppServer]:
    with AppServer("depot", state=STATE) as server:
        yield server


def ask(server: AppServer, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, text, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def state_of(server: AppServer) -> Any:
    status, text, _ = ask(server, "GET", "/api/state")
    assert status == 200
    return json.loads(text)


def test_the_state_is_the_one_it_was_started_with(server: AppServer) -> None:
    assert state_of(server) == server.state == STATE


def test_a_state_that_was_put_is_the_state(server: AppServer) -> None:
    assert ask(server, "PUT", "/api/state", {"name": "other"})[0] == 200
    assert state_of(server) == server.state == {"name": "other"}


def test_a_reset_goes_back_to_the_same_hash(server: AppServer) -> None:
    before = state_hash(state_of(server))
    ask(server, "PUT", "/api/state", {"name": "other"})
    assert state_hash(state_of(server)) != before
    assert ask(server, "POST", "/api/reset")[0] == 200
    assert state_hash(state_of(server)) == before


def test_a_reset_goes_back_to_the_state_with_which_it_began_last(server: AppServer) -> None:
    server.begin({"name": "first"})
    ask(server, "PUT", "/api/state", {"name": "second"})
    assert server.reset()
    assert state_of(server) == {"name": "first"}


def test_without_a_state_the_first_that_is_put_is_the_initial_one() -> None:
    with AppServer("depot") as server:
        assert ask(server, "GET", "/api/state")[0] == 404
        assert json.loads(ask(server, "POST", "/api/reset")[1])["seed_restored"] is False
        ask(server, "PUT", "/api/state", {"name": "first"})
        ask(server, "PUT", "/api/state", {"name": "second"})
        assert json.loads(ask(server, "POST", "/api/reset")[1])["seed_restored"] is True
        assert state_of(server) == {"name": "first"}


@pytest.mark.parametrize("app", app_names())
@pytest.mark.parametrize("path", ["/", "/index.html", "/app.js", "/app.css", "/shared/kit.js", "/shared/kit.css"])
def test_the_files_of_an_app_are_served(app: str, path: str) -> None:
    with AppServer(app) as server:
        status, text, headers = ask(server, "GET", path)
    assert status == 200
    assert text
    assert "default-src 'self'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/../hall/app.js",
        "/%2e%2e/hall/app.js",
        "/..%2fhall%2fapp.js",
        "/shared/../depot/app.js",
        "/shared/%2e%2e/hall/app.js",
        "//etc/hostname",
        "/%2fetc%2fhostname",
        "/../../task.py",
        "/app.js%00.html",
        "/nothing.js",
        f"/{'x' * 5000}.js",
        "/.",
        "/shared",
    ],
)
def test_nothing_outside_of_its_folder_is_served(server: AppServer, path: str) -> None:
    status, text, _ = ask(server, "GET", path)
    assert (status, json.loads(text)) == (404, {"error": "there is no such file"})


def test_a_link_that_leads_out_of_the_folder_is_not_served(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "index.html").write_text("<p>here</p>", encoding="utf-8")
    (tmp_path / "secret.js").write_text("secret", encoding="utf-8")
    (app / "link.js").symlink_to(tmp_path / "secret.js")
    (app / "server.py").write_text("secret", encoding="utf-8")
    with AppServer(app) as server:
        assert ask(server, "GET", "/")[1] == b"<p>here</p>"
        assert ask(server, "GET", "/link.js")[0] == 404
        assert ask(server, "GET", "/server.py")[0] == 404


def test_a_folder_without_a_page_is_no_app(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such app, nor a folder with index\.html"):
        AppServer(tmp_path)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"a": NaN}', 400),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
    ],
)
def test_what_is_no_state_is_refused_and_changes_nothing(server: AppServer, body: bytes, status: int) -> None:
    assert ask(server, "PUT", "/api/state", body)[0] == status
    assert state_of(server) == STATE


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: AppServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        head = f"PUT /api/state HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {MOST_BYTES + 1}\r\n\r\n"
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(100)
    assert state_of(server) == STATE


@pytest.mark.parametrize("length", ["-1", "many", "1e3", "\u0661"])
def test_a_length_that_is_no_number_is_refused(server: AppServer, length: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        head = f"PUT /api/state HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {length}\r\n\r\n{{}}"
        connection.sendall(head.encode())
        assert b" 411 " in connection.recv(100)
    assert state_of(server) == STATE


def test_a_body_that_ends_too_early_changes_nothing(server: AppServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        head = f"PUT /api/state HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 100\r\n\r\n{{}}"
        connection.sendall(head.encode())
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert state_of(server) == STATE


@pytest.mark.parametrize(("method", "path"), [("PUT", "/api/other"), ("POST", "/api/state"), ("GET", "/api/reset")])
def test_there_is_no_other_call(server: AppServer, method: str, path: str) -> None:
    assert ask(server, method, path, {})[0] == 404
    assert state_of(server) == STATE


def test_pages_of_another_origin_are_refused(server: AppServer) -> None:
    assert ask(server, "POST", "/api/reset", Origin="http://elsewhere.example")[0] == 403
    assert ask(server, "GET", "/api/state", Host="elsewhere.example")[0] == 403
    assert ask(server, "GET", "/api/state", Origin=server.url)[0] == 200


def test_a_reset_is_told_to_every_browser_that_listens(server: AppServer) -> None:
    connections = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=10) for _ in range(3)]
    streams = []
    for connection in connections:
        connection.request("GET", "/api/events")
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "text/event-stream"
        assert answer.readline() == b"data: connected\n"
        answer.readline()
        streams.append(answer)
    ask(server, "POST", "/api/reset")
    assert [stream.readline() for stream in streams] == [b"data: reset\n"] * 3
    for stream in streams:
        stream.close()


def test_a_server_that_is_closed_ends_its_streams_and_frees_its_port(server: AppServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/api/events")
    stream = connection.getresponse()
    stream.readline()
    server.close()
    assert stream.read() == b"\n"
    with AppServer("hall", state={}, port=server.port) as other:
        assert other.port == server.port
    server.close()


def test_a_browser_that_has_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemotune.data.web.server.HEARTBEAT_S", 0.05)
    with AppServer("depot", state=STATE) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
            assert connection.recv(20)
        end = time.monotonic() + 10
        while server.listeners and time.monotonic() < end:
            time.sleep(0.05)
        assert server.listeners == 0
